"""Stands in an agent's container and calls the sidecar beside it.

Reads what to do as JSON on standard input, and writes a line of JSON for each
request. Times are of the machine's clock, in seconds: the watch of pods outside
uses the same one.
"""

import json
import socket
import sys
import threading
import time
import urllib.request


def connect():
    conn = socket.create_connection(("127.0.0.1", 8900))
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return conn


def request(code):
    body = code.encode()
    head = "POST /run_python HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/x-python\r\nContent-Length: %d\r\n\r\n"
    return (head % len(body)).encode() + body


def more(conn):
    piece = conn.recv(65536)
    if not piece:
        raise ConnectionError("the sidecar hung up")
    return piece


def exchange(conn, raw):
    conn.sendall(raw)
    got = b""
    while b"\r\n\r\n" not in got:
        got += more(conn)
    head, _, body = got.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines[1:])
    while len(body) < int(fields["content-length"]):
        body += more(conn)
    return int(lines[0].split()[1]), fields.get("retry-after", ""), body


def shoot(conn, raw, due):
    began = time.time()
    try:
        status, after, body = exchange(conn, raw)
        shot = {"status": status, "retry_after": after, "answer": json.loads(body)}
    except (OSError, ValueError) as e:
        shot = {"status": 0, "broken": str(e)}
    shot.update(due=due, began=began, ended=time.time())
    return shot


def caller(told, start, lock):
    """Sends requests one after the other, each when it is due."""
    conn, raw = connect(), request(told["code"])
    alone = request("")  # refused by the sidecar itself
    time.sleep(max(0, start - time.time()))
    end = start + told["seconds"] if told["seconds"] else float("inf")
    sent = 0
    while (sent < told["each"] or not told["each"]) and time.time() < end:
        due = start + sent * told["gap"] if told["gap"] else time.time()
        time.sleep(max(0, due - time.time()))
        shot = shoot(conn, raw, due)
        if told["alone"]:
            time.sleep(told["gap"] / 2)  # not while the next pod's making begins
            before = time.time()
            exchange(conn, alone)
            shot["alone"] = time.time() - before
        with lock:
            print(json.dumps(shot), flush=True)
        if shot["status"] == 0:
            conn = connect()
        sent += 1


def main(told):
    if told["get"]:
        with urllib.request.urlopen(told["get"], timeout=10) as answer:
            print(json.dumps({"text": answer.read().decode()}))
        return
    start, lock = time.time() + 0.1, threading.Lock()
    callers = [threading.Thread(target=caller, args=(told, start, lock)) for _ in range(told["callers"])]
    for c in callers:
        c.start()
    for c in callers:
        c.join()


main(json.load(sys.stdin))
