# docker build -t tailproof .; docker run --rm -v "$PWD:/data" tailproof diagnose log.csv
FROM python:3.12-slim
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt '.[duckdb,excel,onnx]'
RUN useradd --create-home analyst
USER analyst
WORKDIR /data
ENTRYPOINT ["tailproof"]
