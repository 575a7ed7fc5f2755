/* The cancel of a running job: two workers, a person who cancels twice, the expiry at the deadline.
 *
 * The row is (open, due, claimed, token); `requested` is the row of the request, which whoever
 * writes it or acts on it does under the lock of the timer. A job ends by a report, by a claim
 * after its lease ran out, by a person while it waits, or at the deadline by the sweep. A worker
 * may complete, fail, crash, or hang for ever under leases that it renews.
 *
 * Each switch seeds one bug, which Spin must find:
 *   CLAIM_IGNORES_REQUEST  a claim runs a job whose worker was asked to stop and lost its lease
 *   FAILURE_IS_RETRIED     an attempt that fails after the request waits for another
 *   SWEEP_WITHOUT_LOCK     the sweep ends what it has read, whatever happened since
 *   NO_SWEEP               nothing ends a worker that hangs
 *   REQUEST_WITHOUT_LOCK   a job that began to wait meanwhile is asked to stop, and is not ended
 *   NO_TOKEN_IN_REPORT     a report looks only whether the job is claimed
 */
#define CANCELS 2
#define FAILURES 1
#define CRASHES 1
#define EXPIRIES 2

bool open = true, due = true, claimed = false, orphan = false, requested = false, wanted = false;
byte token = 0, issued = 0, owner = 0, ended = 0;
byte cancels = CANCELS, failures = FAILURES, crashes = CRASHES, expiries = EXPIRIES;

inline finish() {
    assert(open);
    open = false; claimed = false; due = false; ended++;
    assert(ended == 1)
}

#ifdef NO_TOKEN_IN_REPORT
#define HOLDS (open && claimed)
#else
#define HOLDS (open && claimed && token == mine)
#endif

proctype Worker(byte me) {
    byte mine = 0;
    bool spared = false, hopeless = false;
idle:
    if
    :: atomic { open && due -> issued++; mine = issued; token = mine; due = false; orphan = false;
#ifndef CLAIM_IGNORES_REQUEST
        if
        :: requested -> finish(); goto out
        :: else -> skip
        fi;
#endif
        assert(!requested);           /* what was asked to stop never begins again */
        claimed = true; owner = me; goto hold }
    :: !open -> goto out
    fi;
hold:
    if
    :: atomic { HOLDS -> assert(owner == me); finish(); goto out }           /* completed */
    :: atomic { failures > 0 -> failures--; goto failed }
    :: atomic { crashes > 0 -> crashes--; orphan = HOLDS; mine = 0; goto idle }
    :: goto hung
    fi;
hung:
    (!open || token != mine) -> goto idle;
failed:
    /* Whether its policy tries again; a request spares what it would have ended, as far as it is
     * seen before the transaction. */
    atomic { spared = requested; if :: hopeless = true :: hopeless = false fi };
    atomic {
        if
        :: HOLDS -> assert(owner == me);
            if
            :: hopeless && !spared -> finish()
            :: else -> claimed = false; due = true;
#ifndef FAILURE_IS_RETRIED
                if
                :: requested -> finish()
                :: else -> skip
                fi;
#endif
                assert(!open || !requested)                        /* and never waits */
            fi
        :: else -> skip                                            /* stale: no row changes */
        fi };
    goto idle;
out:
    skip
}

proctype Person() {
    bool runs;
    do
    :: cancels > 0 ->
#ifdef REQUEST_WITHOUT_LOCK
        atomic { cancels--; runs = open && claimed && !due };
        atomic {
#else
        atomic { cancels--; runs = open && claimed && !due;
#endif
            if
            :: open && runs -> requested = true; wanted = true;
                assert(claimed && !due)                 /* only what runs is asked to stop */
            :: open && !runs -> wanted = true; finish()
            :: else -> skip
            fi }
    :: cancels == 0 || !open -> break
    od
}

/* The deadline of a request may pass at any moment after it. */
proctype Sweep() {
end:
    do
#ifndef NO_SWEEP
#ifdef SWEEP_WITHOUT_LOCK
    :: requested && open -> finish()
#else
    :: atomic { requested && open -> finish() }
#endif
#endif
    :: !open -> break
    od
}

/* A lease runs out; a crashed worker's lease always does, in the end. */
proctype Clock() {
end:
    do
    :: atomic { open && claimed && !due && expiries > 0 -> expiries--; due = true }
    :: atomic { open && orphan -> orphan = false; due = true }
    :: !open -> break
    od
}

init {
    atomic { run Worker(1); run Worker(2); run Person(); run Sweep(); run Clock() }
    (_nr_pr == 1);
    assert(ended == 1);
    assert(!requested || wanted)
}
