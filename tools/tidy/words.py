"""One word per concept: the words of docs/glossary.md, and those we do not say instead."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from tidy.rule import Finding, Rule, Tree, literals, nodes, python, select, without_comments

SOURCE: Final = ("src/postdate/",)
PEERS: Final = "packages/lab/src/postdate_lab/bench/peers/"
"""Other schedulers are called by their own words."""


class Synonym(NamedTuple):
    """A pattern over `_snake_case_` names (with an underscore at both ends), what to say, and why.

    `catches` are names that prove the pattern, separated by spaces.
    """

    pattern: str
    say: str
    reason: str
    catches: str


SYNONYMS: Final = (
    Synonym(
        r"(?<!_explain_all)_tasks?_",
        "job",
        "a task is asyncio's, or a setting of Citus",
        "task tasks task_id PaymentTask",
    ),
    Synonym(
        r"_cron_?jobs?_|_recurring_jobs?_",
        "schedule",
        "only the recurring rule has one",
        "cron_job cronjobs RecurringJob",
    ),
    Synonym(
        r"_queue_(name|id)_|_topic_name_",
        "lane",
        "a queue is a destination elsewhere",
        "queue_name queueId topic_name",
    ),
    Synonym(
        r"_(scheduled|fire|execute|trigger)_at_|_next_run(_at|_time)?_|_eta_",
        "due_at",
        "one name for the instant of a timer",
        "scheduled_at fire_at execute_at next_run next_run_time eta",
    ),
    Synonym(
        r"_retries_(left|remaining)_|_remaining_(attempts|retries)_|_(max|num)_retries_"
        r"|_retry_count_",
        "attempt, max_attempts",
        "the first try counts too",
        "retries_left remaining_attempts max_retries retry_count",
    ),
    Synonym(
        r"_(lock|lease|fencing)_token_|_lease_id_",
        "token",
        "a lease is known by its token",
        "lock_token lease_token fencing_token lease_id",
    ),
    Synonym(
        r"_visibility_timeout_|_locked_(until|by|at)_|_lease_expir(y|es_at)_",
        "lease_until",
        "a lease is not a lock: nobody waits for it",
        "visibility_timeout locked_by lease_expires_at lease_expiry",
    ),
    Synonym(
        r"_worker_(pool|group)_",
        "worker, lane",
        "workers meet at a lane, not in a pool",
        "worker_pool WorkerGroup",
    ),
    Synonym(
        r"_job_(data|args|body|input)_",
        "payload",
        "what goes to the destination",
        "job_data job_args job_body",
    ),
    Synonym(
        r"_(webhook|callback|endpoint)_url_",
        "destination",
        "a webhook is one kind of it",
        "webhook_url callback_url",
    ),
    Synonym(
        r"_(job|payment)_results?_",
        "outcome",
        "what an attempt ended in",
        "job_result PaymentResults",
    ),
    Synonym(
        r"_(job|payment)_state_",
        "status",
        "the word in JSON and in metrics",
        "job_state PaymentState",
    ),
    Synonym(
        r"_dlq_|_dead_letter_queue_",
        "dead_letter",
        "it is a view of failed jobs, no queue",
        "dlq dead_letter_queue",
    ),
    Synonym(
        r"_(shard|partition|slot)_(id|key|no)_",
        "bucket",
        "the first column of every key",
        "shard_id partition_key slot_no",
    ),
    Synonym(r"_wallets?_", "account", "one word for what has a balance", "wallet wallets walletId"),
    Synonym(
        r"_reservations?_|_reserved_(amount|funds|balance)_",
        "hold, held",
        "the reserved part of a balance",
        "reservation reserved_funds",
    ),
    Synonym(
        r"_postings?_|_journal_(line|entry|entries)_|_ledger_(line|row)s?_",
        "entry",
        "one immutable leg of a transfer",
        "posting journal_entry ledger_line",
    ),
    Synonym(
        r"_cents_|_amount_(decimal|float)_",
        "amount",
        "an integer without a currency's name",
        "cents amount_decimal",
    ),
    Synonym(
        r"_txn?s?_",
        "transaction, transfer",
        "a transaction is the database's",
        "tx txn txns txn_id",
    ),
    Synonym(
        r"_tenant_name_|_(organi[sz]ation|workspace|customer)_(id|name)_",
        "tenant, tenant_id",
        "one word for whose data it is",
        "tenant_name organization_id customer_id",
    ),
    Synonym(
        r"_apikeys?_|_api_token_|_access_key_",
        "api_key",
        "a token fences a lease",
        "apikey api_token access_key",
    ),
    Synonym(
        r"_dedup(e|lication)?_(key|id)_|_idempotency_token_",
        "idempotency_key",
        "HTTP's word",
        "dedup_key deduplication_id idempotency_token",
    ),
    Synonym(r"(?<!_query)_cancel(ed|ing)_", "cancelled", "as in the status", "canceled canceling"),
    Synonym(
        r"_uuid[14]_", "model.ids.new_id", "an id carries its time and its bucket", "uuid4 uuid1"
    ),
)

ASYNCIO_TASK: Final = re.compile(r"_tasks?_$|_task_(done|factory|group)_")
"""Names of asyncio's own tasks, in a module that imports it."""

OF_TASKS: Final = "src/postdate/cli/commands/worker.py"
"""The command that runs tasks: to a program in Python, a task is a function that runs as a job."""

OF_CAMT: Final = "src/postdate/account/view/statement_file.py"
"""Writes the elements of ISO 20022, such as `TxId`."""

_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def python_names(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Give the line and text of each identifier, and each word in a string."""
    for node in nodes(module):
        line = getattr(node, "lineno", 1)
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield line, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield line, name
            case ast.ClassDef(name=name) | ast.keyword(arg=str(name)):
                yield line, name
            case ast.alias(name=name, asname=other):
                yield line, other or name.rpartition(".")[2]
            case _:
                pass
    for literal in literals(module):
        for name in _NAME.findall(str(literal.value)):
            yield literal.lineno, name


def sql_names(text: str) -> Iterator[tuple[int, str]]:
    """Give the line and text of each word outside comments."""
    for number, line in enumerate(without_comments(text).splitlines(), 1):
        for name in _NAME.findall(line):
            yield number, name


@cache
def snake(name: str) -> str:
    """Bring a name to `_snake_case_`, so that one pattern fits fields, classes and tables."""
    return f"_{_HUMP.sub('_', name).lower().strip('_')}_"


@cache
def synonym_of(name: str) -> Synonym | None:
    """Say which word should stand in place of a name."""
    return next((each for each in SYNONYMS if re.search(each.pattern, snake(name))), None)


def forbidden_words(tree: Tree) -> Iterator[Finding]:
    """Find names that say a concept in another word."""
    for path, line, name in _source_names(tree):
        synonym = synonym_of(name)
        if synonym is not None:
            yield Finding(path, line, f"{name}: say {synonym.say}; {synonym.reason}")


def _source_names(tree: Tree) -> Iterator[tuple[str, int, str]]:
    for path, text in select(tree, SOURCE, ".sql"):
        for line, name in sql_names(text):
            yield path, line, name
    for path, module in python(tree, *SOURCE):
        if path.startswith(PEERS):
            continue
        has_asyncio = "import asyncio" in tree[path]
        for line, name in python_names(module):
            of_asyncio = has_asyncio and ASYNCIO_TASK.search(snake(name))
            of_camt = path == OF_CAMT and "Tx" in name
            if not of_asyncio and not of_camt and not (path == OF_TASKS and "task" in name):
                yield path, line, name


RULES: Final = (
    Rule(
        "forbidden_words",
        forbidden_words,
        bad=(
            {"src/postdate/a.py": "class Task: ..."},
            {"src/postdate/a.py": "import asyncio\ntask_id = 1"},
            {"src/postdate/a.py": "def f(*, wallet): ..."},
            {"src/postdate/a.py": "from uuid import uuid4"},
            {"src/postdate/a.py": "f(scheduled_at=1)"},
            {"src/postdate/a.py": "x.retriesLeft"},
            {"src/postdate/a.py": "x = {'lock_token': 1}"},
            {"src/postdate/a/store/a.sql": "SELECT 1 FROM task"},
            {"src/postdate/a/store/a.sql": "SELECT reservation FROM account"},
            {"src/postdate/a/store/a.sql": "SELECT queue_name, tenant_name FROM job"},
        ),
        good=(
            {"src/postdate/a.py": "import asyncio\ntask: asyncio.Task = asyncio.create_task(f())"},
            {"src/postdate/a.py": "import asyncio\nx = asyncio.TaskGroup()"},
            {"src/postdate/a.py": '"""Not a wallet, as others say."""\ntransfer_id = 1  # no txn'},
            {"src/postdate/a/store/a.sql": "-- unlike a reservation\nSELECT due_at FROM timer"},
            {"tests/a.py": "wallet = uuid4()"},
        ),
    ),
)
