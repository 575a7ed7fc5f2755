/* Jobs of one key under `max_running`: two workers, crashes, leases that run out, a lower limit.
 *
 * Nothing counts the slots: they are the claimed timers of the key. A claim locks the place, reads
 * the limit, counts, and takes, in this order; the count and the taking are two steps, for they are
 * two statements. A lease that ran out keeps its slot until a claim takes it over: its holder may
 * still renew it. Where more are claimed than a lower limit allows, a claim that finds leases that
 * ran out takes over what fits, and gives the others back with new tokens: no holder can renew them.
 *
 * Each switch seeds one bug, which Spin must find:
 *   NO_PLACE           claims count and take without the lock
 *   COUNT_BEFORE_PLACE the count is read before the lock is held
 *   LIMIT_REMEMBERED   the limit is read before the lock is held
 *   LIVE_ONLY          a lease that ran out no longer counts
 *   LOST_LEFT_ALONE    lost leases beyond a lower limit keep their tokens
 *   COUNTED_SLOTS      a counter, which each claim raises and each end lowers; Spin finds it as a
 *                      state that nobody leaves
 */
#define JOBS 3
#define CRASHES 1
#define EXPIRIES 2

byte limit = 2, place = 0, issued = 0, slots = 0;
bool open[JOBS], claimed[JOBS], live[JOBS], orphan[JOBS];
byte token[JOBS];
byte crashes = CRASHES, expiries = EXPIRIES;
bool lowered = false;

#define LEFT (open[0] || open[1] || open[2])
#define CLAIMED (claimed[0] + claimed[1] + claimed[2])
#define LIVE ((claimed[0] && live[0]) + (claimed[1] && live[1]) + (claimed[2] && live[2]))

#ifdef COUNTED_SLOTS
#define USED slots
#else
#ifdef LIVE_ONLY
#define USED LIVE
#else
#define USED CLAIMED
#endif
#endif
#define FREE(n) (open[n] && (claimed[n] -> !live[n] : USED < limit))

inline take(n) {
    issued++; token[n] = issued; claimed[n] = true; live[n] = true; orphan[n] = false; slots++
}
inline give_back(n) {
    if
    :: claimed[n] && !live[n] ->
        issued++; token[n] = issued; claimed[n] = false; orphan[n] = false
    :: else -> skip
    fi
}

proctype Worker() {
    byte mine = 0, found = 0, most = 0, job = 0;
idle:
    if
    :: atomic { FREE(0) -> job = 0 }
    :: atomic { FREE(1) -> job = 1 }
    :: atomic { FREE(2) -> job = 2 }
    :: atomic { !LEFT -> goto out }
    fi;
    mine = 0; found = USED; most = limit;
#ifndef NO_PLACE
    atomic { place == 0 -> place = 1 };
#endif
    atomic {
#ifndef LIMIT_REMEMBERED
        most = limit;
#endif
#ifndef COUNT_BEFORE_PLACE
        found = USED
#endif
    };
    atomic {
        if
        :: open[job] && !claimed[job] && found < most -> take(job); mine = token[job]
        :: open[job] && claimed[job] && !live[job] ->
            if
#ifndef LOST_LEFT_ALONE
            :: CLAIMED > most ->
                claimed[job] = false;
                give_back(0); give_back(1); give_back(2);
                if
                :: CLAIMED < most -> take(job); mine = token[job]
                :: else -> issued++; token[job] = issued; orphan[job] = false
                fi
#endif
            :: else -> take(job); mine = token[job]
            fi
        :: else -> skip
        fi;
        assert(mine == 0 || CLAIMED <= limit)
    };
#ifndef NO_PLACE
    place = 0;
#endif
    if
    :: mine == 0 -> goto idle
    :: else -> skip
    fi;
hold:
    if
    :: atomic { claimed[job] && token[job] == mine ->           /* it ends */
        open[job] = false; claimed[job] = false; live[job] = false; slots-- }
    :: atomic { claimed[job] && token[job] == mine && !live[job] ->
        live[job] = true; goto hold }                           /* renewed, late */
    :: atomic { crashes > 0 -> crashes--;                       /* and forgets all */
        orphan[job] = claimed[job] && token[job] == mine }
    :: atomic { !(claimed[job] && token[job] == mine) }         /* taken over */
    fi;
    goto idle;
out:
    skip
}

/* Leases run out; that of a crashed worker always does, in the end. A change of the limit that
 * commits between the two statements of a claim counts as one after it. */
proctype Clock() {
end:
    do
    :: atomic { orphan[0] -> orphan[0] = false; live[0] = false }
    :: atomic { orphan[1] -> orphan[1] = false; live[1] = false }
    :: atomic { orphan[2] -> orphan[2] = false; live[2] = false }
    :: atomic { expiries > 0 && claimed[0] && live[0] -> live[0] = false; expiries-- }
    :: atomic { expiries > 0 && claimed[1] && live[1] -> live[1] = false; expiries-- }
    :: atomic { expiries > 0 && claimed[2] && live[2] -> live[2] = false; expiries-- }
    :: atomic { place == 0 && !lowered -> lowered = true; limit = 1 }
    od
}

init {
    atomic {
        open[0] = true; open[1] = true; open[2] = true;
        run Worker(); run Worker(); run Clock()
    }
}
