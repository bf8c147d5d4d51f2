# midstream as a container: a worker by default; any other command instead, such as `web` or `run`.
FROM python:3.13-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap git ripgrep tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 midstream \
    && mkdir /work /state /settings \
    && chown midstream /work /state /settings

WORKDIR /src
COPY requirements.lock pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir -r requirements.lock \
    && pip install --no-cache-dir '.[mcp,pdf,postgres,providers,s3,web]' \
    && rm -rf /src

USER midstream
WORKDIR /work
# /state has clones, folders of runs and what this machine trusts; /settings a person's application.json.
ENV MIDSTREAM_STATE_HOME=/state MIDSTREAM_CONFIG_HOME=/settings PYTHONUNBUFFERED=1
VOLUME ["/state"]
ENTRYPOINT ["tini", "--", "midstream"]
CMD ["worker", "--health", "127.0.0.1:8379"]
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8379/healthz')"]
STOPSIGNAL SIGTERM
