"""A rent service: each tenancy pays on its day of the month and is reminded three days before.

Run it beside a Postdate server (docs/start/tutorial-rent.md tells the story):

    uvicorn --app-dir examples/tutorials rent_service:app --port 9000
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

from postdate.client import AsyncClient, SignatureError, verify_webhook
from postdate.client.problems import IdempotencyKeyReusedError, NotFoundError

LANDLORD = "landlord"
HOOK_URL = os.environ.get("RENT_URL", "http://127.0.0.1:9000") + "/hooks/reminders"
HOOK_SECRET = os.environ["RENT_HOOK_SECRET"]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Make what the service needs; with keys of its own, so that a restart makes nothing twice."""
    async with AsyncClient() as client:
        await client.accounts.create(account_id=LANDLORD, idempotency_key="rent:landlord")
        await client.destinations.create(
            name="reminders",
            type="webhook",
            url=HOOK_URL,
            secret=HOOK_SECRET,
            idempotency_key="rent:reminders",
        )
        app.state.postdate = client
        app.state.reminded = {}
        yield


app = FastAPI(lifespan=lifespan)


class NewTenancy(BaseModel):
    """Who pays how much (in cents) on which day of the month."""

    name: str = Field(pattern=r"^[a-z]{1,30}$")
    rent: int = Field(gt=0)
    day: int = Field(ge=4, le=28)


@app.post("/tenancies", status_code=201)
async def open_tenancy(new: NewTenancy, request: Request) -> dict[str, Any]:
    """Open the account, order the rent for ever, and a reminder three days before each."""
    client: AsyncClient = request.app.state.postdate
    key = f"rent:{new.name}"
    await client.accounts.create(account_id=new.name, idempotency_key=f"{key}:account")
    rent = await client.schedules.create(
        name=f"rent-{new.name}",
        cron=f"0 9 {new.day} * *",
        timezone="Europe/Berlin",
        template={
            "payment": {
                "from_account_id": new.name,
                "to_account_id": LANDLORD,
                "amount": new.rent,
                "description": f"rent of {new.name}",
            }
        },
        insufficient_funds={"policy": "retry", "retry_seconds": timedelta(days=3)},
        idempotency_key=f"{key}:schedule",
    )
    reminder = await client.schedules.create(
        name=f"reminder-{new.name}",
        cron=f"0 9 {new.day - 3} * *",
        timezone="Europe/Berlin",
        template={
            "job": {
                "destination": {"type": "webhook", "name": "reminders"},
                "payload": {"tenancy": new.name, "rent": new.rent},
            }
        },
        idempotency_key=f"{key}:reminder",
    )
    return {"rent": str(rent.schedule_id), "reminder": str(reminder.schedule_id)}


class Deposit(BaseModel):
    """Money that came in from outside, with the bank's own reference."""

    amount: int = Field(gt=0)
    reference: str


@app.post("/tenancies/{name}/deposits", status_code=201)
async def deposit(name: str, new: Deposit, request: Request) -> dict[str, int]:
    """Credit a tenancy. The bank's reference is the key: told twice, it is credited once."""
    client: AsyncClient = request.app.state.postdate
    try:
        account = await client.accounts.adjust(
            name, amount=new.amount, reason="deposit", idempotency_key=f"deposit:{new.reference}"
        )
    except NotFoundError as error:
        raise HTTPException(404, f"there is no tenancy {name}") from error
    except IdempotencyKeyReusedError as error:
        raise HTTPException(409, "this reference was another deposit") from error
    return {"balance": account.balance}


@app.post("/hooks/reminders")
async def remind(request: Request) -> dict[str, bool]:
    """Take a reminder: genuine, and each one once, however often it is delivered."""
    body = await request.body()  # as it arrived: the signature is over these very bytes
    try:
        delivery = verify_webhook(body, request.headers, HOOK_SECRET)
    except SignatureError as error:
        raise HTTPException(401, str(error)) from error
    reminded: dict[str, Any] = request.app.state.reminded
    first = delivery.id not in reminded
    reminded[delivery.id] = delivery.json()
    return {"first": first}


@app.get("/tenancies/{name}")
async def show(name: str, request: Request) -> dict[str, Any]:
    """Show the account, the payments made, and the reminders received."""
    client: AsyncClient = request.app.state.postdate
    account = await client.accounts.get(name)
    paid = [
        payment.amount
        async for payment in client.payments.list(account_id=name)
        if payment.status == "COMPLETED"
    ]
    reminders = [r for r in request.app.state.reminded.values() if r["tenancy"] == name]
    return {"balance": account.balance, "paid": paid, "reminders": reminders}
