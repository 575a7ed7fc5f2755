"""The ledger as a person would write it down: plain Python, sharing no code with the product.

Time is a whole number of seconds. Every operation gives the answer that the product must give.
"""

from dataclasses import dataclass, field

LONGEST_PAUSE = 3600


@dataclass
class ModelAccount:
    balance: int = 0
    held: int = 0
    entries: int = 0
    frozen: bool = False
    closed: bool = False
    floor: int = 0
    limit: int | None = None

    @property
    def available(self) -> int:
        return self.balance - self.held

    def unusable(self) -> str | None:
        return "account_closed" if self.closed else "account_frozen" if self.frozen else None

    def covers(self, amount: int) -> bool:
        return self.available - amount >= self.floor


@dataclass
class ModelPayment:
    payer: str
    payee: str
    amount: int
    due: int
    hold: bool
    give_up: int | None
    # Assigned by the product; the model only needs it to break ties.
    identifier: str = ""
    status: str = "PENDING"
    tries: int = 0
    executed_by_name: bool = False
    events: list[str] = field(default_factory=lambda: ["payment.scheduled"])

    def end(self, status: str) -> None:
        self.status = status
        self.events.append(f"payment.{status.lower()}")


class ModelLedger:
    def __init__(self, names: list[str]) -> None:
        self.now = 0
        self.accounts = {name: ModelAccount() for name in names}
        self.issuer = ModelAccount()
        self.payments: list[ModelPayment] = []

    def adjust(self, name: str, amount: int) -> str:
        account = self.accounts[name]
        if account.closed:
            return "account_closed"
        if amount < 0 and not account.covers(-amount):
            return "insufficient_funds"
        self._move(self.issuer, account, amount)
        return "ok"

    def pay(
        self, payer: str, payee: str, amount: int, delay: int, wait: int | None, *, hold: bool
    ) -> str:
        """Schedule; `wait` is how long after the due second it keeps looking for its money."""
        account = self.accounts[payer]
        if refused := account.unusable() or self.accounts[payee].unusable():
            return refused
        if account.limit is not None and amount > account.limit:
            return "amount_above_limit"
        if hold:
            if not account.covers(amount):
                return "insufficient_funds"
            account.held += amount
        due = self.now + delay
        give_up = None if wait is None else due + wait
        self.payments.append(ModelPayment(payer, payee, amount, due, hold, give_up))
        return "ok"

    def cancel(self, number: int) -> str:
        payment = self.payments[number]
        if payment.status == "CANCELLED":
            return "ok"  # once more changes nothing
        if payment.status != "PENDING":
            return payment.status
        self._release(payment)
        payment.end("CANCELLED")
        return "ok"

    def reschedule(self, number: int, delay: int) -> str:
        payment = self.payments[number]
        if payment.status != "PENDING":
            return payment.status
        due = self.now + delay
        if payment.give_up is not None and due >= payment.give_up:
            return "time_out_of_range"
        payment.due = due
        payment.events.append("payment.rescheduled")
        return "ok"

    def execute(self, number: int) -> str:
        """Settle one payment by name, whatever else is due."""
        payment = self.payments[number]
        if payment.status == "PENDING" and payment.due <= self.now:
            self._execute(payment)
            payment.executed_by_name = payment.status == "FAILED"
        if payment.executed_by_name:
            return "failed by this execution"
        return "ok" if payment.status == "COMPLETED" else payment.status

    def freeze(self, name: str) -> str:
        """Freeze, or let thaw what is frozen."""
        account = self.accounts[name]
        if account.closed:
            return "account_closed"
        account.frozen = not account.frozen
        return "ok"

    def bound(self, name: str, floor: int, limit: int | None) -> str:
        account = self.accounts[name]
        if (floor, limit) == (account.floor, account.limit):
            return "ok"
        if account.closed:
            return "account_closed"
        if floor != account.floor and account.available < floor:
            return "insufficient_funds"
        account.floor, account.limit = floor, limit
        return "ok"

    def close(self, name: str) -> str:
        account = self.accounts[name]
        if account.balance or account.held:
            return "account_not_empty"
        account.closed = True
        return "ok"

    def settle(self, limit: int) -> int:
        """Settle the first `limit` due payments in order, one after the other."""
        due = [p for p in self.payments if p.status == "PENDING" and p.due <= self.now]
        due.sort(key=lambda p: (p.due, p.identifier))
        for payment in due[:limit]:
            self._execute(payment)
        return len(due[:limit])

    def _execute(self, payment: ModelPayment) -> None:
        payer, payee = self.accounts[payment.payer], self.accounts[payment.payee]
        if payer.unusable() or payee.unusable():
            self._release(payment)
            payment.end("FAILED")
        elif payment.hold:
            self._release(payment)
            self._move(payer, payee, payment.amount)
            payment.end("COMPLETED")
        elif payer.covers(payment.amount):
            self._move(payer, payee, payment.amount)
            payment.end("COMPLETED")
        elif payment.give_up is not None and self.now < payment.give_up:
            pause = min(2**payment.tries, LONGEST_PAUSE)
            payment.due = min(self.now + pause, payment.give_up)
            payment.tries += 1
            payment.events.append("payment.retried")
        else:
            payment.end("FAILED")

    def _release(self, payment: ModelPayment) -> None:
        if payment.hold:
            self.accounts[payment.payer].held -= payment.amount

    @staticmethod
    def _move(payer: ModelAccount, payee: ModelAccount, amount: int) -> None:
        payer.balance -= amount
        payee.balance += amount
        payer.entries += 1
        payee.entries += 1

    def balances(self) -> dict[str, tuple[int, int, int]]:
        everybody = {**self.accounts, "issuer": self.issuer}
        return {name: (a.balance, a.held, a.entries) for name, a in everybody.items()}
