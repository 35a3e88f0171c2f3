# One image for every service.  GROUPS are the files of requirements/ beside base and model; PyTorch is not among them.
# docker compose takes them from IMAGE_GROUPS in .env.

# With `@sha256:…` it is one image for ever: docs/operate.md has the command that finds it.
ARG PYTHON_IMAGE=python:3.12.14-slim-bookworm

FROM $PYTHON_IMAGE AS packages
ARG GROUPS="elasticsearch weaviate postgresql"
RUN apt-get update && apt-get install --yes --no-install-recommends binutils
# pip and uv stay here.
RUN python -m venv /opt/build && python -m venv --without-pip /opt/venv
ENV PATH=/opt/build/bin:$PATH UV_PYTHON=/opt/venv/bin/python UV_NO_CACHE=1 UV_SYSTEM_CERTS=1
WORKDIR /build
# The locks first: a change of the code installs nothing anew.
COPY requirements requirements
RUN pip install --no-cache-dir --require-hashes -r requirements/uv.txt \
    && index=$(pip config get global.index-url 2>/dev/null || true) && export ${index:+UV_DEFAULT_INDEX=$index} \
    && uv pip install --no-deps --require-hashes $(printf -- '-r requirements/%s.txt ' base model $GROUPS)
COPY client client
RUN uv pip install --no-deps --no-build-isolation ./client
# No process needs these: what built the client, tests of packages, a second copy of ONNX Runtime for programs in C, and debuggers' symbols.
# The libraries in *.libs were changed after they were linked, and stripping could break them.
RUN cd /opt/venv/lib/python3*/site-packages \
    && uv pip uninstall setuptools \
    && rm -f onnxruntime/capi/libonnxruntime.so.* \
    && find . -type d -name tests -prune -exec rm -r {} + \
    && find . -name '*.so' -not -path '*.libs/*' -exec strip --strip-unneeded {} + \
    && /opt/venv/bin/python -m compileall -q -j 0 . \
    && printf '#!/bin/sh\nexec python -m cli "$@"\n' >/opt/venv/bin/chorale && chmod +x /opt/venv/bin/chorale

FROM $PYTHON_IMAGE
# Unbuffered logs; our root on the path and never the working directory.
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/app PYTHONSAFEPATH=1 \
    GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096 \
    CHORALE_HOME=/var/lib/chorale HF_HOME=/var/lib/chorale/models HOME=/tmp
RUN install -d -o 10001 -g 10001 -m 0700 /var/lib/chorale && install -d -o 999 -g 1000 -m 0700 /acl
# The official base brings a pip of its own.
RUN rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/pip*
COPY --from=packages /opt/venv /opt/venv
WORKDIR /app
COPY . .
RUN python -m compileall -q -j 0 /app
# A number, since Kubernetes cannot tell that a name is not root.
USER 10001:10001
VOLUME /var/lib/chorale
CMD ["python", "-m", "cli", "--help"]
