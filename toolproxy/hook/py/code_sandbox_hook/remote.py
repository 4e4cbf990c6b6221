"""Calls a function in a sandbox: blocking, awaited, and as streams."""
import contextlib
import time

from . import errors, exchange, http1, runtime, transport

HELLO_SECONDS = 2.0
SMALL_ANSWER = 1 << 20


def greet():
    """Says hello when this process has not, or has registered or audited more
    since. Blocking.

    A sidecar that cannot be reached is no failure here: the call will tell."""
    state = runtime.state()
    version = state.registry.version
    if state.greeted == version and not state.audit.due():
        return
    response = http1.Response(SMALL_ANSWER)
    try:
        body = b"".join(transport.blocking(state.place, _hello(state), response, HELLO_SECONDS))
        _greeted(state, version, response.status, body)
    except errors.SandboxUnavailable:
        pass


async def greet_async():
    """Like greet, in an event loop."""
    state = runtime.state()
    version = state.registry.version
    if state.greeted == version and not state.audit.due():
        return
    response = http1.Response(SMALL_ANSWER)
    try:
        body = b""
        async for part in transport.of_this_task()(state.place, _hello(state), response, HELLO_SECONDS):
            body += part
        _greeted(state, version, response.status, body)
    except errors.SandboxUnavailable:
        pass


def farewell():
    """Tells the last counts of audit mode, when the process ends."""
    state = runtime.state()
    if state.audit.left():
        state.greeted = -2
        greet()


def _hello(state):
    return http1.request("POST", exchange.HELLO_PATH, state.place.header, exchange.hello_body(), state.place.token)


def _greeted(state, version, status, body):
    if status == 200:
        allowed = state.policy.env_allow
        state.answer(exchange.document(body, SMALL_ANSWER))
        # More may cross than the record said: it is sent again, before the next call.
        state.greeted = version if state.policy.env_allow == allowed else -2


def _request(call):
    place = runtime.state().place
    accept = exchange.STREAM_TYPE if call.stream else "application/json"
    return http1.request("POST", exchange.CALL_PATH, place.header, call.body(), place.token, accept)


def _again(error, attempt):
    wait = exchange.may_retry(error, attempt)
    if wait is None:
        raise error
    if error.code == "not_found":  # the sidecar does not know this process, it may have started anew
        runtime.state().greeted = -1
    return wait


def call(make):
    """The value of a call. make() builds the exchange.Call, after the hello."""
    attempt = 0
    while True:
        greet()
        one = make()
        try:
            return one.value(_once(one))
        except errors.SandboxUnavailable as error:
            time.sleep(_again(error, attempt))
            attempt += 1


def _once(one):
    response = http1.Response(one.answer_limit)
    documents = exchange.Documents(one.answer_limit)
    for data in transport.blocking(runtime.state().place, _request(one), response, one.seconds):
        documents.add(data)
    return _checked(one, response, documents)


def _checked(one, response, documents):
    document = documents.last(response.status)
    if response.status != 200:
        raise one.failed(document)
    return document


async def call_async(make):
    """Like call, in an event loop."""
    attempt = 0
    while True:
        await greet_async()
        one = make()
        try:
            return one.value(await _once_async(one))
        except errors.SandboxUnavailable as error:
            await _sleep(_again(error, attempt))
            attempt += 1


async def _once_async(one):
    response = http1.Response(one.answer_limit)
    documents = exchange.Documents(one.answer_limit)
    way = transport.of_this_task()
    async for data in way(runtime.state().place, _request(one), response, one.seconds):
        documents.add(data)
    return _checked(one, response, documents)


async def _sleep(seconds):
    if transport.of_this_task() is transport.on_trio:
        import trio
        await trio.sleep(seconds)
    else:
        import asyncio
        await asyncio.sleep(seconds)


def stream(make):
    """The items of a generator function, as they come."""
    greet()
    one = make()
    response = http1.Response(one.answer_limit * 16)
    documents = exchange.Documents(one.answer_limit)
    ended = _End()
    with contextlib.closing(transport.blocking(runtime.state().place, _request(one), response, one.seconds)) as body:
        for data in body:
            for document in _arrived(response, documents, data):
                if ended.seen(one, document):
                    return ended.value
                yield one.item(document)
    return ended.missing(one, response, documents)


async def stream_async(make):
    """The items of an asynchronous generator function, as they come."""
    await greet_async()
    one = make()
    response = http1.Response(one.answer_limit * 16)
    documents = exchange.Documents(one.answer_limit)
    ended = _End()
    body = transport.of_this_task()(runtime.state().place, _request(one), response, one.seconds)
    try:
        async for data in body:
            for document in _arrived(response, documents, data):
                if ended.seen(one, document):
                    return
                yield one.item(document)
        ended.missing(one, response, documents)
    finally:
        await body.aclose()


def _arrived(response, documents, data):
    if response.status != 200:
        documents.add(data)
        return ()
    return documents.lines(data)


class _End(object):
    """The last document of a stream: the function's own return value or error."""

    value = None

    def seen(self, one, document):
        """True when document is the last one. Raises what the function raised."""
        if "item" in document:
            return False
        self.value = one.value(document)
        return True

    def missing(self, one, response, documents):
        """The stream ended without its last document."""
        if response.status != 200:
            raise one.failed(documents.last(response.status))
        raise errors.SandboxUnavailable("the sandbox's stream ended too early", code="sandbox_lost",
                                        executed="maybe")
