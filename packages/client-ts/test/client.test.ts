import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import {
  createPostdate,
  GiveUp,
  JobCancelled,
  ProblemError,
  ResultRef,
  type RunningJob,
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
    if (["COMPLETED", "FAILED", "CANCELLED"].includes(data.status)) return data;
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

test("a job has a unique key, a key and a priority, and is found by them", async () => {
  const add = (payload: number) =>
    postdate.POST("/api/v1/jobs", {
      body: {
        destination: { type: "worker" },
        lane: "ts-fields",
        payload,
        delay_seconds: 3600,
        key: "ts-customer",
        priority: 2,
        unique: { key: "ts-reindex", on_conflict: "replace" },
      },
    });
  const first = (await add(1)).data!;
  const second = (await add(2)).data!;
  assert.equal(second.job_id, first.job_id);
  assert.equal(second.deduplicated, true);
  const query = { lane: "ts-fields", key: "ts-customer", priority: 2, unique: "ts-reindex" };
  const { data: listed } = await postdate.GET("/api/v1/jobs", { params: { query } });
  assert.deepEqual(listed!.jobs.map((job) => [job.job_id, job.key, job.priority]), [
    [first.job_id, "ts-customer", 2],
  ]);
  const filter = { unique: "ts-reindex", key: "ts-customer", priority: 2 };
  const { data: bulk } = await postdate.POST("/api/v1/jobs/bulk/cancel", { body: { filter } });
  assert.equal(bulk!.changed, 1);
});

test("steps are done once over all attempts, and progress and lines are kept", async () => {
  const done: string[] = [];
  const worker = new Worker({ leaseSeconds: 5 }).handle("ts-steps", async (job: RunningJob) => {
    const charged = await job.step("charge", () => (done.push("charge"), { id: 7 }));
    await job.progress(40, "charged");
    job.log(`charged ${charged.id}`);
    if (job.attempt === 1) throw new Error("once more");
    return new ResultRef("s3://reports/7");
  });
  const running = worker.run();
  const retry = { initial_seconds: 0.05, jitter: 0 };
  const body = { destination: { type: "worker" as const }, lane: "ts-steps", retry };
  const job = await ended((await postdate.POST("/api/v1/jobs", { body })).data!.job_id);
  assert.deepEqual([job.status, job.attempt, job.result_ref], ["COMPLETED", 2, "s3://reports/7"]);
  assert.deepEqual(done, ["charge"]);
  assert.deepEqual([job.progress?.percent, job.progress?.note], [40, "charged"]);
  assert.deepEqual(job.progress?.log, ["charged 7"]);
  worker.stop();
  await running;
});

test("a handler hears that its job is to be cancelled", async () => {
  const worker = new Worker({ leaseSeconds: 1 }).handle("ts-cancel", async (job: RunningJob) => {
    assert.equal(job.cancelled, false);
    await new Promise((resolve) => job.cancelSignal.addEventListener("abort", resolve));
    assert.equal(job.cancelled, true);
    throw new JobCancelled();
  });
  const running = worker.run();
  const body = { destination: { type: "worker" as const }, lane: "ts-cancel" };
  const { job_id } = (await postdate.POST("/api/v1/jobs", { body })).data!;
  const path = { job_id };
  while ((await postdate.GET("/api/v1/jobs/{job_id}", { params: { path } })).data!.status !== "RUNNING") {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const asked = await postdate.POST("/api/v1/jobs/{job_id}/cancel", { params: { path }, body: {} });
  assert.equal(asked.data!.result, "cancel_requested");
  const job = await ended(job_id);
  assert.deepEqual([job.status, job.code], ["CANCELLED", "cancelled_after_failure"]);
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
