"""A tool that needs a host."""
import urllib.request


def fetch(url):
    """The first line of what is there."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.readline().decode().strip()
