# Understudy in a container. The API listens on every address at port 8000, the gateway on loopback unless told
# otherwise.
#
#   docker build -t understudy .
#   docker run --init --read-only -v understudy:/data -p 8000:8000 understudy
#   docker run --init --read-only -v understudy:/data -p 8000:8000 -p 127.0.0.1:8787:8787 understudy up --host 0.0.0.0

# Named by digest, for all platforms, because a tag may later name another image. SECURITY.md says how to check it and
# how to take a newer one.
ARG NODE_IMAGE=node:22.23.3-bookworm-slim@sha256:43ac6c60b8f89723f746e8a92ce91abd5017e627ce1ddfe4238355d3a30b772c

FROM ${NODE_IMAGE} AS build
# For the native code: our addons, one of which includes the headers of hnswlib.
RUN apt-get update \
  && apt-get install -y --no-install-recommends g++ \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# npm needs the workspaces that the lock file names.
COPY clients ./clients
COPY native ./native
# This image's npm does not know allowScripts. So no package's script runs here, and our own is called explicitly.
RUN npm ci --ignore-scripts && node native/uwebsockets-binary.mjs && node native/compile.mjs
COPY tsconfig.json tsconfig.build.json ./
COPY tools tools
COPY src ./src
COPY actors ./actors
# Two thirds of onnxruntime's binaries are for other systems.
RUN npm run build && npm prune --omit=dev --ignore-scripts \
  && rm -rf node_modules/onnxruntime-node/bin/*/darwin node_modules/onnxruntime-node/bin/*/win32

FROM ${NODE_IMAGE}
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8000 DATA_DIR=/data ORT_DISABLE_TELEMETRY=1
WORKDIR /app
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY --from=build /app/native ./native
COPY package.json embedded.env LICENSE ./
COPY src/cli/needs-node.mjs src/cli/understudy.mjs ./src/cli/
COPY deploy/healthcheck.mjs ./deploy/healthcheck.mjs
COPY docs ./docs
COPY src/search/default-model ./src/search/default-model
# The only folder that the service writes to. A new named volume gets this folder's owner.
RUN mkdir -m 700 /data && chown node:node /data
USER node
VOLUME /data
EXPOSE 8000 8787
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
  CMD ["node", "/app/deploy/healthcheck.mjs"]
# Without a shell, signals reach the process, which drains on SIGTERM.
ENTRYPOINT ["node", "--env-file=/app/embedded.env", "/app/src/cli/understudy.mjs"]
CMD ["up"]
