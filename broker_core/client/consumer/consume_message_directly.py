"""One call of a listener that an administrator asks for. Nothing is committed or sent back, whatever it returns."""

import asyncio
import inspect
import threading
import traceback
from collections.abc import Callable
from typing import Any

from broker_core.client.consumer.consume_message_concurrently_service import STATUSES as CONCURRENTLY_STATUSES
from broker_core.client.consumer.consume_message_concurrently_service import ConsumeConcurrentlyContext
from broker_core.client.consumer.consume_message_orderly_service import STATUSES as ORDERLY_STATUSES
from broker_core.client.consumer.consume_message_orderly_service import ConsumeOrderlyContext
from broker_core.client.message import MessageExt
from broker_core.clock import Clock
from broker_core.commands import CMResult

MAX_REMARK = 2000
"""Characters of an error that are returned."""

_Returned = tuple[Any, BaseException | None]


async def consume_message_directly(
    listener: Callable[[list[MessageExt], Any], Any], message: MessageExt, clock: Clock, *, orderly: bool
) -> dict[str, Any]:
    """RocketMQ's ConsumeMessageDirectlyResult of the listener, which gets this one message.

    A function that is no coroutine function is called in a thread of its own, so this takes as long as the listener.
    """
    context = (ConsumeOrderlyContext if orderly else ConsumeConcurrentlyContext)(message.message_queue)
    began_ns = clock.mono_ns()
    result, remark = _result(*await _call(listener, [message], context), orderly=orderly)
    return {
        "autoCommit": True,
        "consumeResult": result,
        "order": orderly,
        "remark": remark,
        "spentTimeMills": (clock.mono_ns() - began_ns) // 1_000_000,
    }


async def _call(
    listener: Callable[[list[MessageExt], Any], Any], messages: list[MessageExt], context: Any
) -> _Returned:
    """What the listener returned, or raised."""
    try:
        if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(getattr(listener, "__call__", None)):  # noqa: B004
            return await listener(messages, context), None
        status, error = await _call_in_thread(listener, messages, context)
        if error is None and inspect.isawaitable(status):
            status = await status
    except (Exception, SystemExit) as raised:  # sys.exit() in a listener would end the event loop
        return None, raised
    return status, error


async def _call_in_thread(
    listener: Callable[[list[MessageExt], Any], Any], messages: list[MessageExt], context: Any
) -> _Returned:
    loop = asyncio.get_running_loop()
    returned: asyncio.Future[_Returned] = loop.create_future()

    def set_returned(status: Any, error: BaseException | None) -> None:
        if not returned.done():
            returned.set_result((status, error))

    def work() -> None:
        status: Any = None
        error: BaseException | None = None
        try:
            status = listener(messages, context)
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(set_returned, status, error)
        except RuntimeError:  # the loop has ended; nobody waits for this result
            return

    threading.Thread(target=work, name="consume-directly", daemon=True).start()
    return await returned


def _result(status: Any, error: BaseException | None, *, orderly: bool) -> tuple[CMResult, str]:
    """RocketMQ's CMResult, and why the listener failed."""
    if error is not None:
        return "CR_THROW_EXCEPTION", "".join(traceback.format_exception_only(error)).strip()[:MAX_REMARK]
    if status not in (ORDERLY_STATUSES if orderly else CONCURRENTLY_STATUSES):
        return "CR_THROW_EXCEPTION", f"the listener returned {status!r}, which is no status"[:MAX_REMARK]
    return ("CR_LATER" if status in ("RECONSUME_LATER", "SUSPEND_CURRENT_QUEUE_A_MOMENT") else "CR_SUCCESS"), ""
