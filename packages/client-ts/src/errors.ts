/** What a call may throw. */

/** The server refused. `code` never changes its meaning; `detail` is for people. */
export class ProblemError extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly field: string | undefined;
  readonly body: Record<string, unknown>;

  constructor(status: number, body: unknown) {
    const found = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
    const detail = String(found["detail"] ?? `HTTP ${status}`);
    super(detail);
    this.name = "ProblemError";
    this.status = status;
    this.code = String(found["code"] ?? "unknown");
    this.detail = detail;
    this.field = typeof found["field"] === "string" ? found["field"] : undefined;
    this.body = found;
  }
}

/** No answer came. A request that changes something may have been carried out all the same. */
export class UnreachableError extends Error {
  constructor(url: string, cause: unknown) {
    super(`${url} does not answer`, { cause });
    this.name = "UnreachableError";
  }
}
