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

    @property
    def available(self) -> int:
        return self.balance - self.held


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
        if amount < 0 and account.available + amount < 0:
            return "insufficient_funds"
        self._move(self.issuer, account, amount)
        return "ok"

    def pay(
        self, payer: str, payee: str, amount: int, delay: int, wait: int | None, *, hold: bool
    ) -> str:
        """Schedule; `wait` is how long after the due second it keeps looking for its money."""
        account = self.accounts[payer]
        if account.frozen or self.accounts[payee].frozen:
            return "account_frozen"
        if hold:
            if account.available < amount:
                return "insufficient_funds"
            account.held += amount
        due = self.now + delay
        give_up = None if wait is None else due + wait
        self.payments.append(ModelPayment(payer, payee, amount, due, hold, give_up))
        return "ok"

    def cancel(self, number: int) -> str:
        payment = self.payments[number]
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

    def settle(self, limit: int) -> int:
        """Settle the first `limit` due payments in order, one after the other."""
        due = [p for p in self.payments if p.status == "PENDING" and p.due <= self.now]
        due.sort(key=lambda p: (p.due, p.identifier))
        for payment in due[:limit]:
            self._execute(payment)
        return len(due[:limit])

    def _execute(self, payment: ModelPayment) -> None:
        payer, payee = self.accounts[payment.payer], self.accounts[payment.payee]
        if payer.frozen or payee.frozen:
            self._release(payment)
            payment.end("FAILED")
        elif payment.hold:
            self._release(payment)
            self._move(payer, payee, payment.amount)
            payment.end("COMPLETED")
        elif payer.available >= payment.amount:
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
