/* A claim as one row: it names the jobs of a batch, holds their lease and their fence, and leaves
 * their timers untouched. Two workers, a person who cancels, a crash, leases that run out.
 *
 * A claim is two steps, as in a database: its statement sees the rows that were committed before
 * it began, and its own row is seen from its commit on. So a claim and a cancel that do not lock
 * the same place could both find a job free. `effects` exists only here: how often a job has run.
 *
 * A timer's token says up to which claim it was released: a claim counts for a job only while its
 * token is higher. A retry and a lease of its own, which write the timer anyway, set it so.
 *
 * A record without an answer is repeated: it may have happened, or not.
 *
 * Each switch seeds one bug, which Spin must find:
 *   CANCEL_WITHOUT_PLACE  a cancel locks the timer alone, which a claim does not
 *   CLAIM_WITHOUT_PLACE   two claims of one place at a time
 *   EXPIRED_CLAIM_KEPT    whoever takes over leaves the old claim's row
 *   RETRY_NOT_RELEASED    a retry leaves the timer's token as it is
 *   END_WITHOUT_CLAIM     an end deletes the timer without a look at its claim
 */
#define JOBS 2
#define CRASHES 1
#define EXPIRIES 1
#define RETRIES 2
#define FAULTS 1

bool open[JOBS] = true, waits[JOBS] = false, cancelled[JOBS] = false;
byte released[JOBS] = 0;               /* the timer's token */
byte ended[JOBS] = 0, effects[JOBS] = 0;
bool alive[3] = false, ran_out[3] = false, orphan[3] = false;
byte token[3] = 0, issued = 0;
bool has[6] = false;                   /* has[worker * 2 + job]: the array of the claim's row */
byte place = 0;                        /* who has locked the place; 0 for nobody */
byte crashes = CRASHES, expiries = EXPIRIES, retries = RETRIES, faults = FAULTS;
byte excused[JOBS] = 0, moved[JOBS] = 0;

#define OTHER (3 - me)
#define NAMES(w, j) (alive[w] && has[(w) * 2 + (j)] && token[w] > released[j])
#define HOLDS(w, j) (NAMES(w, j) && !ran_out[w])
#define IS_FREE(j) (open[j] && !waits[j] && !HOLDS(OTHER, j))

inline lock_place(who) {
#ifdef CLAIM_WITHOUT_PLACE
    skip
#else
    place == 0 -> place = who
#endif
}

inline unlock_place() { place = 0 }

/* Take job j into the new claim, if its timer is there, due, and in no living claim. */
inline look(j) {
    if
    :: IS_FREE(j) -> found[j] = true
    :: else -> found[j] = false
    fi
}

inline run_it(j) {
    if
    :: found[j] ->
        /* Whoever was told that it was cancelled before a claim relies on that. */
        assert(!cancelled[j]);
        effects[j]++
    :: else -> skip
    fi
}

inline end_it(j) {
    if
    :: found[j] ->
#ifdef END_WITHOUT_CLAIM
        if
        :: open[j] ->
#else
        if
        :: alive[me] && token[me] == mine && open[j] && token[me] > released[j] ->
#endif
            if
            :: assert(!HOLDS(OTHER, j)); open[j] = false; ended[j]++; assert(ended[j] == 1)
            :: retries > 0 -> assert(!HOLDS(OTHER, j));
                retries--; excused[j]++; waits[j] = true;
                moved[j]++; assert(moved[j] <= effects[j]);     /* an attempt is written once */
#ifndef RETRY_NOT_RELEASED
                released[j] = token[me]
#endif
            fi
        :: else -> skip                /* stale: no row changes */
        fi
    :: else -> skip
    fi
}

proctype Worker(byte me) {
    byte mine = 0;
    bool found[JOBS];
idle:
    if
    :: IS_FREE(0) || IS_FREE(1) -> skip
    :: !open[0] && !open[1] -> goto out
    fi;
    atomic { lock_place(me); look(0); look(1) };
    atomic {
        if
        :: !found[0] && !found[1] -> unlock_place(); goto idle
        :: else -> skip
        fi;
        /* The commit: the new row is there, and that of a claim whose lease ran out is gone. */
        issued++; mine = issued; token[me] = mine; alive[me] = true; ran_out[me] = false;
        orphan[me] = false;
        has[me * 2] = found[0]; has[me * 2 + 1] = found[1];
#ifndef EXPIRED_CLAIM_KEPT
        if
        :: alive[OTHER] && ran_out[OTHER] -> alive[OTHER] = false
        :: else -> skip
        fi;
#endif
        unlock_place()
    };
    if
    :: atomic { run_it(0); run_it(1) }
    :: atomic { crashes > 0 -> crashes--; run_it(0); run_it(1); excused[0]++; excused[1]++;
        orphan[me] = true; goto idle }
    fi;
    /* Two ends, as jobs of a batch end one by one; then the row of the claim goes. */
    atomic { end_it(0) };
    if
    :: atomic { faults > 0 -> faults--; end_it(0) }
    :: skip
    fi;
    atomic { end_it(1) };
    atomic {
        if
        :: alive[me] && token[me] == mine -> alive[me] = false
        :: else -> skip
        fi };
    goto idle;
out:
    skip
}

/* A person cancels the first job: it has not run where no claim names it. */
proctype Person() {
    bool free;
    if
    :: skip
    :: true ->
#ifdef CANCEL_WITHOUT_PLACE
        skip;
#else
        atomic { place == 0 -> place = 3 };
#endif
        atomic {
            free = open[0] && !NAMES(1, 0) && !NAMES(2, 0) && effects[0] == 0;
            if
            :: free -> open[0] = false; cancelled[0] = true; ended[0]++; assert(ended[0] == 1)
            :: else -> skip
            fi
        };
#ifndef CANCEL_WITHOUT_PLACE
        place = 0
#endif
    fi
}

/* A claim's lease runs out, that of a crashed worker always in the end; a retry comes due. */
proctype Clock() {
end:
    do
    :: atomic { expiries > 0 && alive[1] && !ran_out[1] ->
        expiries--; ran_out[1] = true; excused[0]++; excused[1]++ }
    :: atomic { expiries > 0 && alive[2] && !ran_out[2] ->
        expiries--; ran_out[2] = true; excused[0]++; excused[1]++ }
    :: atomic { alive[1] && orphan[1] && !ran_out[1] -> ran_out[1] = true }
    :: atomic { alive[2] && orphan[2] && !ran_out[2] -> ran_out[2] = true }
    :: atomic { waits[0] -> waits[0] = false }
    :: atomic { waits[1] -> waits[1] = false }
    :: !open[0] && !open[1] -> break
    od
}

init {
    atomic { run Worker(1); run Worker(2); run Person(); run Clock() }
    (_nr_pr == 1);
    assert(ended[0] == 1 && ended[1] == 1);
    /* Each extra effect is explained by a crash, a lease that ran out, or a retry. */
    assert(effects[0] <= 1 + excused[0]);
    assert(effects[1] <= 1 + excused[1])
}
