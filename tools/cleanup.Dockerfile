# An image for Lambda that runs `ttl cleanup`; see docs/upgrading.md.
FROM python:3.11-slim
RUN pip install --no-cache-dir mlflow-dynamodbstore awslambdaric
ENTRYPOINT ["python", "-m", "awslambdaric"]
CMD ["mlflow_dynamodbstore.deploy.scheduled_cleanup.handler"]
