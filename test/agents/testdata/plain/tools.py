"""Tools for tests of the command."""
import os
import time


def add(a, b):
    return a + b


def where():
    return os.getpid()


def slow():
    time.sleep(0.3)
    return os.getpid()
