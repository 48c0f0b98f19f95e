# laurels as a service: docker build -t laurels . && docker run -p 8080:8080 -e LAURELS_ADMIN_KEY=… -v boards:/data laurels
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN python -m venv /opt/laurels && /opt/laurels/bin/pip install --no-cache-dir '.[server,client,redis]'

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /data laurels \
    && mkdir /data && chown laurels /data
COPY --from=build /opt/laurels /opt/laurels
ENV PATH=/opt/laurels/bin:$PATH LAURELS_DATA=/data LAURELS_HOST=0.0.0.0 LAURELS_LOG_FORMAT=json
USER laurels
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["python", "-c", \
    "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/readyz', timeout=2)"]
# SIGTERM ends streams, answers what is under way and closes the folder.
STOPSIGNAL SIGTERM
CMD ["laurels", "serve"]
