import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import {
  createPostdate,
  GiveUp,
  ProblemError,
  SignatureError,
  signWebhook,
  verifyWebhook,
  Worker,
} from "../src/index.js";

const postdate = createPostdate();

async function ended(job_id: string) {
  for (;;) {
    const { data } = await postdate.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id } } });
    assert.ok(data);
    if (["COMPLETED", "FAILED"].includes(data.status)) return data;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("a payment is scheduled, and a repeated key gives the same one", async () => {
  for (const account_id of ["ts-ada", "ts-bob"]) {
    await postdate.POST("/api/v1/accounts", { body: { account_id } });
  }
  await postdate.POST("/api/v1/accounts/{account_id}/adjustments", {
    params: { path: { account_id: "ts-ada" }, header: { "Idempotency-Key": "ts-opening" } },
    body: { amount: 1000, reason: "opening" },
  });
  const order = {
    params: { header: { "Idempotency-Key": "ts-rent" } },
    body: {
      from_account_id: "ts-ada",
      to_account_id: "ts-bob",
      amount: 250,
      delay_seconds: 3600,
    },
  };
  const first = await postdate.POST("/api/v1/payments/schedule", order);
  const again = await postdate.POST("/api/v1/payments/schedule", order);
  assert.equal(first.data?.status, "PENDING");
  assert.equal(again.data?.payment_id, first.data?.payment_id);
});

test("a refusal is thrown with its code and field", async () => {
  const asked = postdate.POST("/api/v1/jobs", {
    body: { destination: { type: "webhook", url: "ftp://nowhere" } },
  });
  await assert.rejects(asked, (error: unknown) => {
    assert.ok(error instanceof ProblemError);
    assert.equal(error.status, 422);
    return error.field?.startsWith("destination") === true;
  });
});

test("a worker runs jobs of its lane and keeps their results", async () => {
  const worker = new Worker({ leaseSeconds: 5 })
    .handle("ts-work", (lease) => ({ doubled: (lease.payload as { n: number }).n * 2 }))
    .handle("ts-work", () => Promise.reject(new GiveUp("never", "no_way")), "hopeless");
  const running = worker.run();
  const add = async (body: object) => {
    const job = { destination: { type: "worker" as const }, lane: "ts-work", ...body };
    return (await postdate.POST("/api/v1/jobs", { body: job })).data!.job_id;
  };
  const done = await ended(await add({ payload: { n: 21 } }));
  assert.deepEqual([done.status, done.result], ["COMPLETED", { doubled: 42 }]);
  const failed = await ended(await add({ metadata: { kind: "hopeless" } }));
  assert.deepEqual([failed.status, failed.code, failed.attempt], ["FAILED", "no_way", 1]);
  worker.stop();
  await running;
});

test("a key that is refused ends the worker", async () => {
  const worker = new Worker({ apiKey: "pdk_wrong" }).handle("ts-work", () => undefined);
  await assert.rejects(worker.run(), (error: unknown) => {
    return error instanceof ProblemError && error.status === 401;
  });
});

test("a webhook that the server sends is genuine, a changed one is not", async () => {
  const { data: made } = await postdate.GET("/api/v1/signing-secret");
  const secret = made!.secret!;
  const call = await new Promise<{ headers: Record<string, string>; body: string }>((resolve, reject) => {
    const receiver = createServer((request, response) => {
      let body = "";
      request.on("data", (part: Buffer) => (body += part.toString()));
      request.on("end", () => {
        response.end();
        receiver.close();
        resolve({ headers: request.headers as Record<string, string>, body });
      });
    });
    receiver.listen(0, "127.0.0.1", () => {
      const { port } = receiver.address() as { port: number };
      const destination = { type: "webhook" as const, url: `http://127.0.0.1:${port}/hook` };
      const body = { destination, payload: { hello: "later" } };
      postdate.POST("/api/v1/jobs", { body }).catch((error: unknown) => {
        receiver.close();
        reject(error as Error);
      });
    });
  });
  assert.deepEqual(verifyWebhook(secret, call.headers, call.body), { hello: "later" });
  assert.throws(() => verifyWebhook(secret, call.headers, `${call.body} `), SignatureError);
  const late = { now: new Date(Date.now() + 3_600_000) };
  assert.throws(() => verifyWebhook(secret, call.headers, call.body, late), SignatureError);
  const { "webhook-signature": _, ...unsigned } = call.headers;
  assert.throws(() => verifyWebhook(secret, unsigned, call.body), SignatureError);
  const stamp = call.headers["webhook-timestamp"]!;
  const forged = signWebhook("whsec_AAAA", call.headers["webhook-id"]!, stamp, call.body);
  assert.throws(
    () => verifyWebhook(secret, { ...call.headers, "webhook-signature": forged }, call.body),
    SignatureError,
  );
});
