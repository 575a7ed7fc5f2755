"""The signs of life need no key: whoever asks for them again and again holds nobody up."""

import asyncio
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from postdate.api.health import MetricsPage

COLLECT_SECONDS = 0.005


class Slow(Collector):
    """Metrics that take a while to write."""

    def __init__(self) -> None:
        self.collected = 0

    def collect(self) -> Iterator[Metric]:
        self.collected += 1
        began = time.monotonic()
        while time.monotonic() < began + COLLECT_SECONDS:
            pass
        yield GaugeMetricFamily("slow", "How often it was collected.", self.collected)


async def test_a_thousand_scrapes_write_the_metrics_a_few_times() -> None:
    registry, slow = CollectorRegistry(), Slow()
    registry.register(slow)
    slow.collected = 0
    page = MetricsPage(registry)
    began = time.monotonic()
    for _ in range(10):
        pages = await asyncio.gather(*(page.fresh_page() for _ in range(100)))
        assert all(b"slow" in each for each in pages)
    # Ten times as long as one takes lies between two of them.
    assert slow.collected <= 2 + (time.monotonic() - began) / (10 * COLLECT_SECONDS)


async def test_a_scrape_tells_what_was_so_when_it_was_asked_for() -> None:
    registry = CollectorRegistry()
    gauge = Gauge("told", "Something.", registry=registry)
    page = MetricsPage(registry)
    for number in range(20):
        gauge.set(number)
        assert f"told {number}.0" in (await page.fresh_page()).decode()


async def test_a_scraper_that_hangs_up_takes_the_page_from_nobody() -> None:
    page = MetricsPage(CollectorRegistry())
    leaving, staying = (asyncio.create_task(page.fresh_page()) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == b""
