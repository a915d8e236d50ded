/**
 * A module for `node --import`. A package that was installed for a client's tests (installed-client.ts) is then found
 * by its name, as if it were in node_modules. CLIENT_PACKAGE is the name, CLIENT_ENTRY the file.
 */
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

const { CLIENT_PACKAGE, CLIENT_ENTRY } = process.env;
registerHooks({
  resolve: (specifier, context, next) =>
    next(specifier === CLIENT_PACKAGE ? pathToFileURL(CLIENT_ENTRY).href : specifier, context),
});
