/** A worker: claims jobs of lanes, runs your functions, keeps leases, reports how they ended. */
import { createPostdate, type Postdate, type PostdateOptions } from "./client.js";
import { ProblemError } from "./errors.js";
import { GiveUp, JobCancelled, type Lease, Reporter, ResultRef, type RunningJob } from "./running.js";

/** What runs a job. `signal` is aborted when the lease is lost: what it does then counts no more. */
export type Handler = (job: RunningJob, signal: AbortSignal) => unknown;

/** Throw it to fail this attempt and choose when the next one may come. */
export class RetryLater extends Error {
  constructor(message: string, readonly seconds?: number) {
    super(message);
  }
}

/** Throw it when nobody can say whether the work was done. */
export class InDoubt extends Error {}

export interface WorkerOptions extends PostdateOptions {
  /** How many jobs of each lane run at once. */
  concurrency?: number;
  /** How soon another worker takes over from one that died. */
  leaseSeconds?: number;
}

const WAIT_SECONDS = 20;
const MAX_CLAIM = 100;
const PAUSE_MS = 200;
const MAX_PAUSE_MS = 10_000;
const MAX_REPORT_PAUSE_MS = 2_000;
const MAX_ERROR = 2_000;

export class Worker {
  private readonly client: Postdate;
  private readonly concurrency: number;
  private readonly leaseSeconds: number;
  private readonly handlers = new Map<string, Map<string | undefined, Handler>>();
  private readonly stopping = new AbortController();

  constructor(options: WorkerOptions = {}) {
    this.client = createPostdate({ ...options, retries: 0 });
    this.concurrency = options.concurrency ?? 10;
    this.leaseSeconds = options.leaseSeconds ?? 30;
  }

  /** Register a function for a lane, or for the jobs of one kind (`metadata.kind`) in it. */
  handle(lane: string, handler: Handler, kind?: string): this {
    const known = this.handlers.get(lane) ?? new Map<string | undefined, Handler>();
    if (known.has(kind)) throw new Error(`lane ${lane} has a handler for ${kind ?? "all"} already`);
    this.handlers.set(lane, known.set(kind, handler));
    return this;
  }

  /** Begin nothing more; `run` ends when what is under way has ended. */
  stop(): void {
    this.stopping.abort();
  }

  /** Work until `stop`; throw when the server refuses the key. */
  async run(): Promise<void> {
    if (this.handlers.size === 0) throw new Error("register a handler first");
    const lanes = [...this.handlers.keys()];
    await Promise.all(lanes.map((lane) => this.serve(lane))).finally(() => this.stop());
  }

  private async serve(lane: string): Promise<void> {
    const running = new Set<Promise<void>>();
    let pause = PAUSE_MS;
    while (!this.stopping.signal.aborted) {
      if (running.size >= this.concurrency) {
        await Promise.race(running);
        continue;
      }
      try {
        for (const lease of await this.claim(lane, this.concurrency - running.size)) {
          const working = this.work(lane, lease).finally(() => running.delete(working));
          running.add(working);
        }
        pause = PAUSE_MS;
      } catch (error) {
        if (this.stopping.signal.aborted) break;
        if (error instanceof ProblemError && [401, 403].includes(error.status)) {
          await Promise.all(running);
          throw error;
        }
        await sleep(pause * (0.5 + Math.random()), this.stopping.signal);
        pause = Math.min(pause * 2, MAX_PAUSE_MS);
      }
    }
    await Promise.all(running);
  }

  private async claim(lane: string, free: number): Promise<Lease[]> {
    const { data } = await this.client.POST("/api/v1/lanes/{lane}/claim", {
      params: { path: { lane } },
      body: {
        max: Math.min(free, MAX_CLAIM),
        lease_seconds: this.leaseSeconds,
        wait_seconds: WAIT_SECONDS,
      },
      signal: this.stopping.signal,
    });
    return data?.leases ?? [];
  }

  private async work(lane: string, lease: Lease): Promise<void> {
    const lost = new AbortController();
    const reporter = new Reporter(this.client, lease, this.leaseSeconds);
    const renewing = setInterval(
      () => void this.renew(reporter, lost),
      (this.leaseSeconds * 1000) / 3,
    );
    try {
      const handler = this.find(lane, lease);
      const result = await handler(reporter.job, lost.signal);
      await reporter.flush();
      if (!lost.signal.aborted) await this.complete(lease, result);
    } catch (error) {
      await reporter.flush();
      if (!lost.signal.aborted) await this.fail(lease, error);
    } finally {
      clearInterval(renewing);
    }
  }

  private find(lane: string, lease: Lease): Handler {
    const kind = lease.metadata?.["kind"];
    const known = this.handlers.get(lane);
    const found = known?.get(typeof kind === "string" ? kind : undefined) ?? known?.get(undefined);
    if (found !== undefined) return found;
    return () => {
      throw new Error(`no handler for ${String(kind ?? "jobs without a kind")} in lane ${lane}`);
    };
  }

  private async renew(reporter: Reporter, lost: AbortController): Promise<void> {
    try {
      await reporter.renew();
    } catch (error) {
      if (error instanceof ProblemError && error.code === "lease_lost") lost.abort();
    }
  }

  private complete(lease: Lease, result: unknown): Promise<void> {
    const kept = result instanceof ResultRef ? { result_ref: result.address } : { result };
    const body = { token: lease.token, ...(result === undefined ? {} : kept) };
    return this.report(() =>
      this.client.POST("/api/v1/leases/{job_id}/complete", {
        params: { path: { job_id: lease.job_id } },
        body,
      }),
    );
  }

  private fail(lease: Lease, error: unknown): Promise<void> {
    const said = error instanceof Error ? error.stack ?? error.message : String(error);
    const body = {
      token: lease.token,
      error: (plain(error) ? error.message : said).slice(0, MAX_ERROR) || "failed",
      ...(error instanceof JobCancelled ? { code: "cancelled" } : {}),
      ...(error instanceof GiveUp ? { code: error.code, retryable: false } : {}),
      ...(error instanceof RetryLater && error.seconds !== undefined
        ? { retry_after_seconds: error.seconds }
        : {}),
      ...(error instanceof InDoubt ? { unknown: true } : {}),
    };
    return this.report(() =>
      this.client.POST("/api/v1/leases/{job_id}/fail", {
        params: { path: { job_id: lease.job_id } },
        body,
      }),
    );
  }

  /** Report how it ended, again while the server is busy or away: a repeat changes nothing. */
  private async report(send: () => Promise<unknown>): Promise<void> {
    const ends = Date.now() + 2 * this.leaseSeconds * 1000;
    for (let pause = PAUSE_MS; ; pause = Math.min(pause * 2, MAX_REPORT_PAUSE_MS)) {
      try {
        await send();
        return;
      } catch (error) {
        const passing =
          !(error instanceof ProblemError) || error.status >= 500 || error.status === 429;
        if (!passing || Date.now() > ends) return;
        await sleep(pause);
      }
    }
  }
}

function plain(error: unknown): error is Error {
  return error instanceof GiveUp || error instanceof JobCancelled;
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
