/** The client for platforms without Node's modules, in this repository. The published package has `dist` instead. Any thread. */
export * from '../../src/client/edge/edge.ts';
