"""Tools for tests of the command."""
import os
import time


def add(a, b):
    return a + b


def where():
    return os.getpid()


def fetch(url):
    import urllib.request
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def other(url):
    return fetch(url)


def slow():
    time.sleep(0.3)
    return os.getpid()
