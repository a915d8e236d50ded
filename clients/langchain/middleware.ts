/** The middleware of the integration of langchain, in this repository. The published package has `dist` instead. Any thread. */
export * from '../../src/integrations/langchain-middleware.ts';
