/* What the driver loads for CUDA_INJECTION64_PATH, and nothing else: what the variable costs. */
int InitializeInjection(void);

int InitializeInjection(void)
{
	return 1;
}
