/** The integration of openai-agents, in this repository. The published package has `dist` instead. Any thread. */
export * from '../../src/integrations/openai-agents.ts';
