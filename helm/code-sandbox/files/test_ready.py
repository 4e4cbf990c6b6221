import os, time, urllib.request

for part in os.environ["PARTS"].split():
    url = "http://code-sandbox-%s.%s.svc:8902/readyz" % (part, os.environ["NAMESPACE"])
    for last in [False] * 60 + [True]:
        try:
            print(part, urllib.request.urlopen(url, timeout=5).read().decode().strip())
            break
        except OSError as error:
            if last:
                raise
            print(part, error)
            time.sleep(2)
print("Ready. To run a program, set test.namespace to an enrolled namespace.")
