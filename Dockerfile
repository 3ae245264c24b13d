# docker build -t raft-namesrv .
# BINARY_FROM chooses the stage that the server's binary comes from: `build` compiles it from this folder; `prebuilt`
# takes the file `raft-namesrv` of the build context (with BuildKit, which leaves out the stages that nobody needs).
ARG BINARY_FROM=build

FROM rust:1.95.0-slim-bookworm AS build
WORKDIR /src
COPY scripts/install-build-deps.sh scripts/
RUN scripts/install-build-deps.sh build
COPY . .
RUN cargo build --release --locked && cp target/release/raft-namesrv /raft-namesrv

FROM scratch AS prebuilt
COPY raft-namesrv /raft-namesrv

FROM ${BINARY_FROM} AS binary

FROM debian:bookworm-slim
# A volume takes its owner from the folder that it covers.
RUN groupadd --system --gid 9876 raft-namesrv \
 && useradd --system --uid 9876 --gid raft-namesrv --no-create-home --shell /usr/sbin/nologin raft-namesrv \
 && install -d -o raft-namesrv -g raft-namesrv -m 0750 /var/lib/raft-namesrv
COPY --from=binary --chmod=0755 /raft-namesrv /usr/local/bin/raft-namesrv
USER raft-namesrv
VOLUME /var/lib/raft-namesrv
# RocketMQ, peers, HTTP.
EXPOSE 9876 9976 10076
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["raft-namesrv", "probe"]
ENTRYPOINT ["raft-namesrv"]
CMD ["serve", "--data", "/var/lib/raft-namesrv"]
