/**
 * `@understudy-gateway/client/edge`: the client for platforms that have `fetch` and none of Node's modules (Workers, edge
 * functions). tools/packages.ts builds it of the same sources, with those of this folder in the place of their namesakes. Any
 * thread.
 */
export * from '../understudy.ts';
