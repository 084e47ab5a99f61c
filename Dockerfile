# Two images from one file:
#   web     engine, web and scheduler
#   full    the same and Spark with its Java, for the report worker; what `docker build .` makes

FROM python:3.13-slim-trixie AS web
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    GLASSMQ_DATA_DIR=/data
WORKDIR /glassmq
COPY requirements/base.txt requirements/
RUN pip install --require-hashes -r requirements/base.txt
RUN useradd --uid 10001 --user-group --no-create-home glassmq \
    && install -d -o glassmq -g glassmq -m 0700 /data
COPY . .
RUN python -m compileall -q .
USER glassmq
VOLUME /data
STOPSIGNAL SIGTERM
CMD ["python", "manage.py", "broker"]

FROM web AS full
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-21-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
RUN pip install --require-hashes -r requirements/base.txt -r requirements/spark.txt
USER glassmq
