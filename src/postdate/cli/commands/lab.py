"""What `postdate bench` and `postdate chaos` say where the lab is not installed."""

from typing import Annotated

from cyclopts import Parameter

from postdate.words.error import StartError

Ignored = Annotated[str, Parameter(allow_leading_hyphen=True, show=False)]


def bench(*words: Ignored) -> None:
    """Measure Postdate; needs the distribution postdate-lab."""
    del words
    raise _missing("bench")


def chaos(*words: Ignored) -> None:
    """Break Postdate on purpose; needs the distribution postdate-lab."""
    del words
    raise _missing("chaos")


def _missing(command: str) -> StartError:
    return StartError(
        f"`postdate {command}` is in a distribution of its own, which is not installed here:"
        " `pip install postdate-lab`, or in a clone `make setup`."
    )
