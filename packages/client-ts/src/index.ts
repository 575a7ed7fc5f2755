/** The TypeScript client of Postdate. */
export { createPostdate, type Postdate, type PostdateOptions } from "./client.js";
export { ProblemError, UnreachableError } from "./errors.js";
export { signWebhook, verifyWebhook, SignatureError, type VerifyOptions } from "./webhook.js";
export { Worker, GiveUp, RetryLater, InDoubt, type Handler, type Lease } from "./worker.js";
export type { components, operations, paths } from "./schema.js";
