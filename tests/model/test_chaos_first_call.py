"""What a checker of `postdate chaos` makes of a call whose answer was lost."""

from uuid import UUID

from model.test_chaos_checks import PAYMENT, arrival, good, line
from postdate_lab.chaos.system_check import CHECKS


def test_a_payment_is_due_by_its_first_call_though_only_a_repetition_was_answered() -> None:
    seen = good()
    [lost] = [n for n, each in enumerate(seen.lines) if each.op == "payment.schedule" and n]
    pay = seen.lines[0].data
    seen.lines[lost] = line(3, "info", "payment.schedule", 1, **pay)
    answer = {"payment_id": str(PAYMENT)}
    body = f'{{"type":"payment.completed","subject":"{PAYMENT}"}}'
    seen.lines += [
        arrival(pay["delay"] + 1, UUID(int=60), 1, "events", body),
        line(pay["delay"] + 2, "invoke", "payment.repeat", 99, **pay),
        line(pay["delay"] + 2.1, "ok", "payment.repeat", 99, answer=answer, **pay),
    ]
    assert not list(CHECKS["I5"](seen))
