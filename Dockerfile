# The images of Code Sandbox. The test cluster has no builder of images and
# makes the same ones in Go; "go run ./test/cluster/cmd dockerfile" holds this
# file against them.
#
#   docker build --target code-sandbox -t code-sandbox .
#   docker build --target python -t code-sandbox-python .

FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN mkdir /out && for main in code-sandbox control sidecar runner; do \
      test ! -d cmd/$main || CGO_ENABLED=0 go build -trimpath -buildvcs=false '-ldflags=-s -w' -o /out/$main ./cmd/$main || exit 1; \
    done

# The product: static programs and nothing else; the chart says which one runs.
FROM scratch AS code-sandbox
COPY --from=build /out/ /usr/local/bin/
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/code-sandbox"]

FROM debian:12-slim AS wheels
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv
COPY test/cluster/images/python.txt /python.txt
RUN python3 -m venv /venv && \
    /venv/bin/pip install -q --disable-pip-version-check --no-compile --only-binary :all: --target /out -r /python.txt && \
    find /out -type d -name tests -prune -exec rm -rf {} + && \
    python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -s /out -p /usr/local/lib/python3.11/dist-packages /out

# The sandbox for Python code: the interpreter, and packages to work with data.
FROM debian:12-slim AS python
RUN apt-get update && apt-get install -y --no-install-recommends base-files netbase dash coreutils grep sed libstdc++6 python3 && \
    rm -rf /var/lib/apt/lists/* && \
    groupadd -g 65532 nonroot && useradd -u 65532 -g 65532 -m -s /sbin/nologin nonroot
COPY --from=wheels /out/ /usr/local/lib/python3.11/dist-packages/
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER 65532:65532
CMD ["python3"]
