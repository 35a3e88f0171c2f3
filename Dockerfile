FROM python:3.12-slim

# Unbuffered logs; our root on the path and never the working directory (docs/adr/0001-program-and-client.md).
ENV PYTHONUNBUFFERED=1 PYTHONPATH=/app PYTHONSAFEPATH=1 CHORALE_HOME=/var/lib/chorale
WORKDIR /app

# The locks first: a change of the code installs nothing anew.
COPY requirements/base.txt requirements/model.txt requirements/
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements/base.txt \
    && pip install --no-cache-dir --no-deps --require-hashes -r requirements/model.txt
COPY client client
RUN pip install --no-cache-dir --no-deps --no-build-isolation ./client
COPY . .

RUN useradd --system --create-home chorale && install -d -o chorale -g chorale /var/lib/chorale
USER chorale
VOLUME /var/lib/chorale
CMD ["python", "-m", "cli", "--help"]
