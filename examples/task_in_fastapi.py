"""A FastAPI service that answers at once and does the slow part later, on a worker beside it.

uvicorn task_in_fastapi:api
"""

import asyncio
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI

from postdate import Postdate
from postdate.client import AsyncClient

tasks = Postdate()  # POSTDATE_URL, POSTDATE_API_KEY
api = FastAPI(lifespan=tasks.lifespan(worker=True))


@tasks.task(lane="fastapi-reports", retry=3)
async def report(month: str, pages: int = 1) -> str:
    """Write a report; this runs on the worker."""
    await asyncio.sleep(0.1)
    return f"{month}: {pages} pages"


@api.post("/reports/{month}", status_code=202)
async def ask(month: str) -> dict[str, str]:
    """Take the request, and answer before the work is done."""
    handle = await report.anow(month, pages=3)
    return {"job_id": handle.job_id}


@api.get("/reports/{job_id}")
async def look(
    job_id: str, client: Annotated[AsyncClient, Depends(tasks.get_client)]
) -> dict[str, str]:
    """Say how far it is."""
    job = await client.jobs.wait(job_id, timeout=30)
    return {"status": job.status, "result": str(job.result)}


async def main() -> None:
    """Serve, and be the first client."""
    import aiohttp

    server = uvicorn.Server(uvicorn.Config(api, port=0, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn tells by this flag alone
        await asyncio.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        async with session.post("/reports/2031-01") as answer:
            asked = await answer.json()
            print("answered:", answer.status)
        async with session.get(f"/reports/{asked['job_id']}") as answer:
            print("report:", await answer.json())
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
