/** Webhooks are signed by the scheme of Standard Webhooks: HMAC-SHA256 over id, time and body. */
import { createHmac, timingSafeEqual } from "node:crypto";

export class SignatureError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "SignatureError";
  }
}

export interface VerifyOptions {
  /** How old or how far ahead a call may be, in seconds. */
  toleranceSeconds?: number;
  /** The present, for tests. */
  now?: Date;
}

type Headers = Record<string, string | string[] | undefined> | { get(name: string): string | null };

/** Return the parsed body of a genuine webhook; throw `SignatureError` for any other. */
export function verifyWebhook(
  secret: string,
  headers: Headers,
  body: string | Uint8Array,
  options: VerifyOptions = {},
): unknown {
  const id = header(headers, "webhook-id");
  const timestamp = header(headers, "webhook-timestamp");
  const now = (options.now ?? new Date()).getTime() / 1000;
  if (!/^\d{1,12}$/.test(timestamp)) throw new SignatureError("webhook-timestamp is no number");
  if (Math.abs(now - Number(timestamp)) > (options.toleranceSeconds ?? 300)) {
    throw new SignatureError("the call is too old, or a clock is wrong");
  }
  const wanted = Buffer.from(signWebhook(secret, id, timestamp, body));
  const given = header(headers, "webhook-signature").split(" ");
  // While a secret is rotated a call carries two signatures; one that fits is enough.
  const fits = given.some((each) => {
    const found = Buffer.from(each);
    return found.length === wanted.length && timingSafeEqual(found, wanted);
  });
  if (!fits) throw new SignatureError("no signature fits: wrong secret, or another body");
  const text = typeof body === "string" ? body : Buffer.from(body).toString("utf8");
  return text === "" ? undefined : JSON.parse(text);
}

/** Return the signature of a call, as `webhook-signature` carries it. */
export function signWebhook(
  secret: string,
  id: string,
  timestamp: string,
  body: string | Uint8Array,
): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const mac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body);
  return `v1,${mac.digest("base64")}`;
}

function header(headers: Headers, name: string): string {
  const found =
    "get" in headers && typeof headers.get === "function"
      ? headers.get(name)
      : (headers as Record<string, string | string[] | undefined>)[name];
  if (typeof found !== "string" || found === "") throw new SignatureError(`${name} is missing`);
  return found;
}
