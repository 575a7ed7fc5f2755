/** The TypeScript client of Postdate. */
export { createPostdate, type Postdate, type PostdateOptions } from "./client.js";
export { ProblemError, UnreachableError } from "./errors.js";
export { signWebhook, verifyWebhook, SignatureError, type VerifyOptions } from "./webhook.js";
export { GiveUp, JobCancelled, ResultRef, type Lease, type RunningJob } from "./running.js";
export { Worker, RetryLater, InDoubt, type Handler } from "./worker.js";
export type { components, operations, paths } from "./schema.js";
