/* A job's timer as a lease: two workers, crashes, leases that run out, commits without an answer.
 *
 * The row is (open, due, claimed, token). A claim takes what is due and gives it a token; a record
 * or a give-back changes the row only where its token still stands there. A commit may be answered,
 * happen without an answer, or not happen without an answer: the worker cannot tell the last two
 * apart. `owner` exists only here: whoever really holds the lease.
 *
 * Each switch seeds one bug, which Spin must find:
 *   TOKEN_REUSED       a token counts from the row, so that one that was rolled back comes again
 *   NO_TOKEN_IN_RECORD the record looks only whether the job is claimed
 *   NO_GIVE_BACK        a claim in doubt is forgotten
 *   RECORD_NOT_REPEATED a record in doubt is taken for done
 * The last two leave something that waits for ever, unless its lease runs out: with ENDLESS only
 * those of crashed workers do. Spin finds it as a state that nobody leaves.
 */
#define WORKERS 2
#define FAULTS 2
#define CRASHES 1
#ifdef ENDLESS
#define EXPIRIES 0
#else
#define EXPIRIES 2
#endif

bool open = true, due = true, claimed = false, orphan = false;
byte token = 0, issued = 0, owner = 0, ended = 0, effects = 0;
byte faults = FAULTS, crashes = CRASHES, expiries = EXPIRIES;

inline new_token(mine) {
#ifdef TOKEN_REUSED
    mine = token + 1
#else
    issued++;
    mine = issued
#endif
}

inline take(me, mine) { token = mine; claimed = true; due = false; orphan = false; owner = me }

inline end_it(me) {
    assert(owner == me);
    assert(open);
    open = false; claimed = false; ended++;
    assert(ended == 1)
}

#ifdef NO_TOKEN_IN_RECORD
#define HOLDS (open && claimed)
#else
#define HOLDS (open && claimed && token == mine)
#endif

proctype Worker(byte me) {
    byte mine = 0;
idle:
    if
    :: atomic { open && due -> new_token(mine);
        if
        :: take(me, mine); goto hold
        :: faults > 0 -> faults--; take(me, mine); goto doubt  /* done, not answered */
        :: faults > 0 -> faults--; goto doubt                  /* rolled back, not answered */
        fi }
    :: !open -> goto out
    fi;
doubt:
#ifndef NO_GIVE_BACK
    atomic {
        if
        :: open && claimed && token == mine -> assert(owner == me); claimed = false; due = true
        :: else -> skip
        fi };
#endif
    goto idle;
hold:
    if
    :: atomic { effects++; goto record }
    :: atomic { crashes > 0 -> crashes--; effects++;           /* before or after its effect */
        orphan = open && claimed && token == mine; mine = 0; goto idle }
    fi;
record:
    atomic {
        if
        :: HOLDS ->
            if
            :: end_it(me); goto out
            :: faults > 0 -> faults--; end_it(me)              /* done, not answered */
            :: faults > 0 -> faults--                          /* rolled back, not answered */
            fi
        :: else -> goto idle                                   /* stale: no row changes */
        fi };
#ifdef RECORD_NOT_REPEATED
    goto idle;
#endif
    goto record;
out:
    skip
}

/* A lease runs out: the row is due again and keeps its token until somebody claims it. A crashed
 * worker's lease always does, in the end. */
proctype Clock() {
end:
    do
    :: atomic { open && claimed && !due && expiries > 0 -> expiries--; due = true }
    :: atomic { open && orphan -> orphan = false; due = true }
    :: !open -> break
    od
}

init {
    atomic { run Worker(1); run Worker(2); run Clock() }
    (_nr_pr == 1);
    assert(ended == 1);
    /* Each extra effect is explained by a crash, a lease that ran out, or a lost answer. */
    assert(effects <= 1 + (CRASHES - crashes) + (EXPIRIES - expiries) + (FAULTS - faults))
}
