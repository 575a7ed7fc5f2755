/* A payment between two settlers, a cancel and the kill switch of its tenant.
 *
 * Settling is one transaction: share the lock of halts, look at the switch, lock the timer (or skip
 * it), move the money, commit; it may roll back anywhere. A cancel waits for the timer's lock and
 * ends the payment only if the timer is still there. Whoever turns the switch commits that first,
 * then waits until it has had the lock of halts alone, and only then acknowledges.
 *
 * Each switch seeds one bug, which Spin must find:
 *   LOOK_FIRST     the settler looks at the switch before it shares the lock
 *   NO_SHARE       the settler does not share the lock at all
 *   NO_TIMER_LOCK  the settler believes what it saw of the timer before it began
 *   ACK_AT_ONCE    the switch is acknowledged without waiting
 */
bool timer = true;         /* the payment is open */
byte locked = 0;           /* who has locked the timer */
byte sharing = 0;          /* settlers that share the lock of halts */
bool alone = false;        /* the switch has it */
bool halted = false, acknowledged = false, lifted = false;
byte moved = 0, held = 1, cancelled = 0;
byte rollbacks = 2;

proctype Settler(byte me) {
    bool saw_halt;
    do
    :: timer ->
#ifdef LOOK_FIRST
        saw_halt = halted;
#endif
#ifndef NO_SHARE
        atomic { !alone -> sharing++ };
#endif
#ifndef LOOK_FIRST
        saw_halt = halted;
#endif
        if
        :: saw_halt -> goto leave                       /* set aside */
        :: else -> skip
        fi;
#ifdef NO_TIMER_LOCK
        goto settle;
#endif
        atomic {
            if
            :: timer && locked == 0 -> locked = me
            :: else -> goto leave                       /* skipped: somebody is at it, or done */
            fi };
settle:
        if
        :: atomic { rollbacks > 0 -> rollbacks--;
                    if :: locked == me -> locked = 0 :: else -> skip fi }
        :: atomic {
            assert(!(acknowledged && !lifted));         /* nothing moves after the answer */
            moved++; held--;
            assert(moved + cancelled == 1);
            timer = false;
            if :: locked == me -> locked = 0 :: else -> skip fi }
        fi;
leave:
#ifndef NO_SHARE
        sharing--;
#endif
        if
        :: saw_halt -> (lifted || !timer)
        :: else -> skip
        fi
    :: !timer -> break
    od
}

proctype Canceller() {
    if
    :: atomic { locked == 0 -> locked = 9 };            /* waits for a settlement under way */
        if
        :: atomic { timer -> cancelled++; held--; assert(moved + cancelled == 1); timer = false;
                    locked = 0 }
        :: atomic { rollbacks > 0 -> rollbacks--; locked = 0 }
        :: atomic { !timer -> locked = 0 }
        fi
    :: skip                                             /* nobody cancels */
    fi
}

proctype Switch() {
    if
    :: halted = true;
#ifndef ACK_AT_ONCE
        atomic { sharing == 0 -> alone = true };
        alone = false;
#endif
        acknowledged = true;
        lifted = true; halted = false
    :: skip
    fi
}

init {
    atomic { run Settler(1); run Settler(2); run Canceller(); run Switch() }
    (_nr_pr == 1);
    assert(moved + cancelled == 1);
    assert(held == 0)
}
