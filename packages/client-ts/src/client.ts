/** Typed calls: the paths and bodies of the OpenAPI document. */
import createClient, { type Client } from "openapi-fetch";

import { ProblemError, UnreachableError } from "./errors.js";
import type { paths } from "./schema.js";

export interface PostdateOptions {
  /** Address of the server; POSTDATE_URL, or http://127.0.0.1:8080. */
  url?: string;
  /** API key; POSTDATE_API_KEY. */
  apiKey?: string;
  /** How often a request that was not answered is sent again. */
  retries?: number;
  /** Longest wait for one answer. */
  timeoutMs?: number;
}

/** `GET`, `POST`, `PUT`, `PATCH` and `DELETE` of every path; a refusal is thrown as `ProblemError`. */
export type Postdate = Client<paths>;

const PAUSE_MS = 200;
const MAX_PAUSE_MS = 5_000;
const AGAIN = new Set([429, 503]);

export function settings(options: PostdateOptions): { url: string; apiKey: string } {
  const env = typeof process === "undefined" ? {} : process.env;
  const url = options.url ?? env["POSTDATE_URL"] ?? "http://127.0.0.1:8080";
  const apiKey = options.apiKey ?? env["POSTDATE_API_KEY"] ?? "";
  if (!apiKey) throw new Error("there is no API key: pass apiKey, or set POSTDATE_API_KEY");
  return { url: url.replace(/\/+$/, "").replace(/\/api\/v1$/, ""), apiKey };
}

/** Create a client. Every POST carries an idempotency key, the same for all tries of one call. */
export function createPostdate(options: PostdateOptions = {}): Postdate {
  const { url, apiKey } = settings(options);
  const retries = options.retries ?? 3;
  const timeoutMs = options.timeoutMs ?? 60_000;
  const client = createClient<paths>({
    baseUrl: url,
    headers: { Authorization: `Bearer ${apiKey}` },
    fetch: (request) => sendRepeatedly(request, retries, timeoutMs),
  });
  client.use({
    async onResponse({ response }) {
      if (response.ok) return undefined;
      throw new ProblemError(response.status, await response.json().catch(() => null));
    },
  });
  return client;
}

async function sendRepeatedly(
  request: Request,
  retries: number,
  timeoutMs: number,
): Promise<Response> {
  if (request.method === "POST" && !request.headers.has("Idempotency-Key")) {
    request.headers.set("Idempotency-Key", crypto.randomUUID());
  }
  for (let tried = 0; ; tried++) {
    const attempt = tried < retries ? request.clone() : request;
    try {
      const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)]);
      const response = await fetch(attempt, { signal });
      if (!AGAIN.has(response.status) || tried >= retries) return response;
      await response.body?.cancel();
      await pause(tried, Number(response.headers.get("Retry-After") ?? 0) * 1000);
    } catch (error) {
      if (request.signal.aborted) throw error;
      if (tried >= retries) throw new UnreachableError(request.url, error);
      await pause(tried, 0);
    }
  }
}

function pause(tried: number, atLeastMs: number): Promise<void> {
  const backoff = Math.min(PAUSE_MS * 2 ** tried, MAX_PAUSE_MS) * (0.5 + Math.random());
  return new Promise((resolve) => setTimeout(resolve, Math.max(backoff, atLeastMs)));
}
