"""One connection: what comes in goes to its session, and the session's events go out."""

import asyncio
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from simulmt.serve.events import Welcome, fault_text, refusal_text, welcome_text
from simulmt.serve.limits import FAULTS, HELLO_SECONDS
from simulmt.serve.messages import VERSION, Hello, MalformedError, Seen, parse
from simulmt.serve.session import Session
from simulmt.serve.sessions import FullError, Sessions

_LEFT = (WebSocketDisconnect, RuntimeError)
"""What Starlette raises once the client has gone; RuntimeError after a close in mid-answer."""
_REFUSED = 1008
"""The code of a connection that is closed because of what the client did."""


async def converse(websocket: WebSocket, sessions: Sessions) -> None:
    """Talk to a client until one side leaves; the session may go on with another connection."""
    await websocket.accept()
    try:
        greeted = await _greet(websocket, sessions)
        if greeted is None:
            return
        session, welcome = greeted
        try:
            await websocket.send_text(welcome_text(welcome))
            await _exchange(websocket, session, sessions)
        finally:
            session.disconnect(websocket)
    except _LEFT:
        return


async def _greet(websocket: WebSocket, sessions: Sessions) -> tuple[Session, Welcome] | None:
    """Return the session that the first message asks for, and its greeting; None without one."""
    try:
        hello = parse(await asyncio.wait_for(_text(websocket), HELLO_SECONDS))
        if not isinstance(hello, Hello):
            raise MalformedError("the first message must be hello")
        if hello.version != VERSION:
            raise MalformedError(f"the server speaks version {VERSION}: load the page anew")
        return await sessions.begin(websocket, hello)
    except (asyncio.TimeoutError, MalformedError, FullError) as error:
        reason = str(error) or f"no hello in {HELLO_SECONDS:g} seconds"
        sessions.journal.write("refused", why=reason[:200])
        await _close(websocket, reason, isinstance(error, FullError))
        return None


async def _exchange(websocket: WebSocket, session: Session, sessions: Sessions) -> None:
    """Receive and send until the client leaves, or the session ends or has another connection."""
    hearing = asyncio.create_task(_hear(websocket, session, sessions))
    telling = asyncio.create_task(_tell(websocket, session))
    try:
        await asyncio.wait({hearing, telling}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (hearing, telling):
            task.cancel()
        results = await asyncio.gather(hearing, telling, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, _LEFT):
            sessions.journal.write("error", session=session.number, what=repr(result)[:300])
    if results[1] is None:  # all is told, and the client is still there
        await _close(websocket, session.over or "another connection has taken over this session")


async def _hear(websocket: WebSocket, session: Session, sessions: Sessions) -> None:
    """Pass messages on; too many malformed ones end the connection."""
    for _ in range(FAULTS):
        try:
            while True:
                text = await _text(websocket)
                if session.connection is not websocket:  # its client says it again elsewhere
                    return
                session.heard += 1
                message = parse(text)
                session.heard -= isinstance(message, Seen)
                session.hear(message)
        except MalformedError as error:
            sessions.journal.write("malformed", session=session.number)
            await websocket.send_text(fault_text(str(error)))
    await _close(websocket, f"{FAULTS} messages were malformed")


async def _tell(websocket: WebSocket, session: Session) -> None:
    async for text in session.events(websocket):
        await websocket.send_text(text)


async def _text(websocket: WebSocket) -> str:
    """Return the next message.

    Raises:
        MalformedError: the message is no text.
        WebSocketDisconnect: the client has left.
    """
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    text = message.get("text")
    if text is None:
        raise MalformedError("a message is text, not bytes")
    return str(text)


async def _close(websocket: WebSocket, reason: str, again: bool = False) -> None:
    """Say why, and whether the client may come back by itself, and close."""
    if websocket.application_state is WebSocketState.CONNECTED:
        with suppress(RuntimeError, WebSocketDisconnect):
            await websocket.send_text(refusal_text(reason, again))
            await websocket.close(_REFUSED)
