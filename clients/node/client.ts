/** The client, in this repository. The published package has `dist` instead. Any thread. */
export * from '../../src/client/understudy.ts';
