"""Event loops other than asyncio, and programs that replace the socket module."""
import world

TOOLS = """
import asyncio, os, time
async def where(n):
    return [n, os.getpid()]
async def items(n):
    for i in range(n):
        yield i
async def sleepy(path):
    time.sleep(4)
    open(path, "w").close()
def plain(n):
    time.sleep(0.5)
    return [n, os.getpid()]
"""


def test_trio(tmp_path, sidecar):
    main = """
import json, trio, tools
async def run():
    got = []
    async with trio.open_nursery() as nursery:
        async def one(n): got.append(await tools.where(n))
        for n in range(3): nursery.start_soon(one, n)
    streamed = [i async for i in tools.items(3)]
    return sorted(got), streamed
print("RESULT " + json.dumps(trio.run(run)))
"""
    got, streamed = world.own(tmp_path, {"tools": TOOLS, "main": main}, sidecar).result
    assert [g[0] for g in got] == [0, 1, 2] and len({g[1] for g in got}) == 3 and streamed == [0, 1, 2]


def test_t20_trio_cancellation_ends_the_copy(tmp_path, sidecar, marker):
    main = """
import json, time, trio, tools
async def run():
    with trio.move_on_after(1.5) as scope:
        await tools.sleepy(%r)
    return scope.cancelled_caught
print("RESULT " + json.dumps(trio.run(run)))
time.sleep(2)
""" % marker.path
    assert world.own(tmp_path, {"tools": TOOLS, "main": main}, sidecar).result is True
    assert not sidecar.alive() and not marker.ran()


def test_gevent_calls_run_side_by_side(tmp_path, sidecar):
    main = """
from gevent import monkey
monkey.patch_all()
import gevent, json, os, tools
beats = []
def heart():
    while True:
        beats.append(1); gevent.sleep(0.02)
beating = gevent.spawn(heart)
jobs = [gevent.spawn(tools.plain, n) for n in range(3)]
gevent.joinall(jobs)
beating.kill()
print("RESULT " + json.dumps([[j.value for j in jobs], len(beats)]))
"""
    values, beats = world.own(tmp_path, {"tools": TOOLS, "main": main}, sidecar).result
    assert [v[0] for v in values] == [0, 1, 2] and len({v[1] for v in values}) == 3
    assert beats > 10, "a call held the loop"


def test_replaced_socket_and_proxy_variables_are_not_used(tmp_path, sidecar):
    main = """
import json, socket, tools
class Broken(socket.socket):
    def connect(self, address): raise OSError("recorded")
socket.socket = Broken
print("RESULT " + json.dumps(tools.plain(1)[0]))
"""
    assert world.own(tmp_path, {"tools": TOOLS, "main": main}, sidecar, http_proxy="http://127.0.0.1:9",
                     HTTP_PROXY="http://127.0.0.1:9", NO_PROXY=None).result == 1
