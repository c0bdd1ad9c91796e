# MLflow's server on a table. Build: docker build -t mlflow-dynamodbstore .
# Run: docker run -p 5000:5000 -v mlflow:/data mlflow-dynamodbstore
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src ./src
# Extras to install: --build-arg EXTRAS=auth
ARG EXTRAS=""
RUN python -m venv /opt/mlflow \
    && /opt/mlflow/bin/pip install --no-cache-dir ".${EXTRAS:+[$EXTRAS]}" \
    && find /opt/mlflow -name __pycache__ -type d -prune -exec rm -rf {} +

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="mlflow-dynamodbstore" \
      org.opencontainers.image.description="MLflow's server on one DynamoDB table, or on one file" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data mlflow \
    && install -d -o mlflow -g mlflow /data
COPY --from=build /opt/mlflow /opt/mlflow
ENV PATH=/opt/mlflow/bin:$PATH \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 5000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5000/health', timeout=4)"]
# Further options of the server come after the name of the image:
#   --table dynamodb://us-east-1/mlflow --artifacts s3://my-bucket
ENTRYPOINT ["python", "-m", "mlflow_dynamodbstore.serve", "--host", "0.0.0.0", "--data", "/data"]
