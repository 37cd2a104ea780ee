/* Loaded together, when one of them is first shown. */
export { AuditPage } from "./Audit";
export { People } from "./People";
export { Tenants } from "./Tenants";
export { Tokens } from "./Tokens";
