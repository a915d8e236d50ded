/**
 * `@understudy-gateway/client/edge`: the client for platforms that have `fetch` but none of Node's modules (Workers,
 * edge functions). tools/packages.ts builds it from the same sources, replacing those that have a namesake in this
 * folder. Any thread.
 */
export * from '../understudy.ts';
