"""Metrics as a scrape finds them."""

from prometheus_client.parser import text_string_to_metric_families

from conftest import Api

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(api: Api) -> Samples:
    """Ask for the metrics: each sample by its name and labels."""
    async with api.session.get(f"{api.url}/metrics") as response:
        assert response.status == 200
        text = await response.text()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    """Give one sample."""
    return samples[name, tuple(sorted(labels.items()))]
