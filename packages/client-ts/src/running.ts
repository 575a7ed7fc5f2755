/** The job that a handler runs: report progress, write lines, do steps once, hear of a cancel. */
import type { Postdate } from "./client.js";
import { ProblemError } from "./errors.js";
import type { components } from "./schema.js";

export type Lease = components["schemas"]["LeaseView"];
type Progress = Partial<components["schemas"]["ProgressBody"]>;
type Renewed = components["schemas"]["RenewView"];

const MAX_LINES = 100;
const MAX_BUFFERED = 1_000;
const MAX_LINE = 1_000;
const MAX_NOTE = 500;
const PAUSE_MS = 200;

/** Return it to keep the address of a result that is larger than 64 KiB. */
export class ResultRef {
  constructor(readonly address: string) {}
}

/** Throw it when no further attempt can succeed. */
export class GiveUp extends Error {
  constructor(message: string, readonly code = "gave_up") {
    super(message);
  }
}

/** Throw it to stop a job that is to be cancelled (`job.cancelled`). */
export class JobCancelled extends Error {
  constructor(message = "the function stopped because the job was cancelled") {
    super(message);
  }
}

/** A job under a lease, as its handler gets it. */
export interface RunningJob extends Lease {
  /** Whether the job is to be cancelled: stop soon, or throw `JobCancelled`. */
  readonly cancelled: boolean;
  /** Aborted when the job is to be cancelled. */
  readonly cancelSignal: AbortSignal;
  /** Report how far it is: 0 to 100, and a few words; this renews the lease too. */
  progress(percent?: number, note?: string): Promise<void>;
  /** Write a line that is kept with this attempt; it is sent with the next report. */
  log(line: string): void;
  /** Do a step once over all attempts; its result is recorded as JSON before this resolves. */
  step<T>(name: string, work: () => T | Promise<T>): Promise<T>;
}

/** What a worker knows of one job that it runs, and how it tells the server. */
export class Reporter {
  private readonly cancelling = new AbortController();
  private readonly steps: Map<string, unknown>;
  private readonly begun = new Set<string>();
  private lines: string[] = [];
  private recording: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly client: Postdate,
    private readonly lease: Lease,
    private readonly leaseSeconds: number,
  ) {
    const kept = (lease.checkpoint as { steps?: Record<string, unknown> } | undefined)?.steps;
    this.steps = new Map(Object.entries(kept ?? {}));
  }

  get job(): RunningJob {
    const { cancelling } = this;
    return {
      ...this.lease,
      cancelSignal: cancelling.signal,
      get cancelled() {
        return cancelling.signal.aborted;
      },
      progress: (percent, note) => this.progress(percent, note),
      log: (line) => this.write(line),
      step: (name, work) => this.step(name, work),
    };
  }

  /** Renew the lease, and send the lines that were written. */
  async renew(): Promise<void> {
    if (this.lines.length > 0) return this.send({});
    const { data } = await this.client.POST("/api/v1/leases/{job_id}/renew", {
      params: { path: { job_id: this.lease.job_id } },
      body: { token: this.lease.token, lease_seconds: this.leaseSeconds },
    });
    this.heard(data);
  }

  /** Send the lines that are left; a server that does not answer gets none of them. */
  async flush(): Promise<void> {
    try {
      while (this.lines.length > 0) await this.send({});
    } catch {
      this.lines = [];
    }
  }

  private write(line: string): void {
    this.lines.push(storable(line).slice(0, MAX_LINE));
    this.lines.splice(0, this.lines.length - MAX_BUFFERED);
  }

  /** Only a refusal (a lost lease, a wrong value) is worth an exception. */
  private async progress(percent?: number, note?: string): Promise<void> {
    const said = note === undefined ? {} : { note: storable(note).slice(0, MAX_NOTE) };
    try {
      await this.send({ ...(percent === undefined ? {} : { percent }), ...said });
    } catch (error) {
      if (error instanceof ProblemError && error.status < 500) throw error;
    }
  }

  private async step<T>(name: string, work: () => T | Promise<T>): Promise<T> {
    if (this.begun.has(name)) throw new Error(`this job has a step ${name} already`);
    this.begun.add(name);
    if (this.steps.has(name)) return this.steps.get(name) as T;
    const result = JSON.parse(JSON.stringify((await work()) ?? null)) as T;
    const recorded = this.recording.then(() => this.record(name, result));
    this.recording = recorded.catch(() => undefined);
    await recorded;
    return result;
  }

  private async record(name: string, result: unknown): Promise<void> {
    const checkpoint = { steps: Object.fromEntries([...this.steps, [name, result]]) };
    for (let pause = PAUSE_MS; ; pause *= 2) {
      try {
        await this.send({ checkpoint });
        this.steps.set(name, result);
        return;
      } catch (error) {
        if (error instanceof ProblemError && error.code === "payload_too_large") {
          throw new GiveUp(`step ${name} was done: ${error.message}`, "checkpoint_too_large");
        }
        const refused = error instanceof ProblemError && error.status < 500;
        if (refused || pause > this.leaseSeconds * 1000) throw error;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  /** Report to the server, with the next lines; those of a report that fails come again. */
  private async send(said: Progress): Promise<void> {
    const lines = this.lines.splice(0, MAX_LINES);
    const log = lines.length > 0 ? { log: lines } : {};
    try {
      const { data } = await this.client.POST("/api/v1/leases/{job_id}/progress", {
        params: { path: { job_id: this.lease.job_id } },
        body: { token: this.lease.token, lease_seconds: this.leaseSeconds, ...said, ...log },
      });
      this.heard(data);
    } catch (error) {
      this.lines.unshift(...lines);
      throw error;
    }
  }

  private heard(renewed: Renewed | undefined): void {
    if (renewed?.cancel_requested) this.cancelling.abort();
  }
}

const HALF = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Write out what PostgreSQL cannot store: U+0000, and halves of surrogate pairs. */
function storable(text: string): string {
  return text.replace(HALF, "\ufffd").replaceAll("\0", "\\x00");
}
