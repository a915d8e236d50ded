/** The integration of claude-agent-sdk, in this repository. The published package has `dist` instead. Any thread. */
export * from '../../src/integrations/claude-agent-sdk.ts';
