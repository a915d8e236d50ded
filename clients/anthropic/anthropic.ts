/** The integration of anthropic, in this repository. The published package has `dist` instead. Any thread. */
export * from '../../src/integrations/anthropic.ts';
